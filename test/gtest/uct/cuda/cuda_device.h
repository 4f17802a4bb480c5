/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_DEVICE_H
#define CUDA_DEVICE_H

#include <cuda.h>

#include <stddef.h>
#include <stdint.h>

#include <stdexcept>
#include <string>

/**
 * @file cuda_device.h
 * @brief Contexts and memory for the tests of the CUDA transports, by the
 *        driver's API. Used by the test program and by the owner process.
 *
 * What a test needs and does not get is thrown as @ref cuda_test::failure.
 */
namespace cuda_test {

/** The harness cannot go on. */
class failure : public std::runtime_error {
public:
    explicit failure(const std::string &reason) : std::runtime_error(reason)
    {
    }
};

/** Throws unless the call was well. */
void must(CUresult result, const std::string &call);

/** Number of devices, 0 where there is no driver. */
int num_devices();

/** Word @a index of the endless pattern that @a seed starts. Two patterns
 *  differ in each word but by chance, so that data from a wrong place, and data
 *  that moved, are noticed. */
inline uint64_t pattern_word(uint64_t seed, uint64_t index)
{
    uint64_t word = (seed << 32) + index + 1;

    word *= 0x9e3779b97f4a7c15ull;
    word ^= word >> 29;
    word *= 0xd1342543de82ef95ull;
    return word ^ (word >> 32);
}

/** A context, current to the thread that has made it: one of its own, or the
 *  primary one of the device. */
class context {
public:
    explicit context(int device, bool is_primary = false);

    /** Another context may be current then, or none. */
    ~context();

    CUcontext handle() const
    {
        return m_handle;
    }

    void make_current() const;

    /** Destroy it now, with whatever is in it. */
    void destroy();

private:
    context(const context &);
    context &operator=(const context &);

    CUdevice   m_device;
    const bool m_is_primary;
    CUcontext  m_handle;
};

/** While this lives, another context is current to the thread, or none. */
class scoped_context {
public:
    explicit scoped_context(CUcontext handle);
    ~scoped_context();

private:
    scoped_context(const scoped_context &);
    scoped_context &operator=(const scoped_context &);

    CUcontext m_former;
};

enum memory_type_t {
    MEMORY_DEVICE,
    MEMORY_HOST,   /**< Pinned, so that copies are asynchronous */
    MEMORY_MANAGED,
    MEMORY_LAST
};

/** An array of slots of equal length, a multiple of 8, in the current
 *  context. */
class memory {
public:
    memory(memory_type_t type, unsigned num_slots, size_t slot_length);
    ~memory();

    memory_type_t type() const
    {
        return m_type;
    }

    size_t slot_length() const
    {
        return m_slot_length;
    }

    size_t length() const
    {
        return m_slot_length * m_num_slots;
    }

    void *slot(unsigned index) const;

    /** Fill a slot with the pattern of a seed. */
    void fill(unsigned index, uint64_t seed);

    /** Whether all of a slot is the pattern of a seed. */
    bool holds(unsigned index, uint64_t seed) const;

private:
    memory(const memory &);
    memory &operator=(const memory &);

    const memory_type_t m_type;
    const unsigned      m_num_slots;
    const size_t        m_slot_length;
    CUcontext           m_context;
    void                *m_address;
};

} /* namespace cuda_test */

#endif
