/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef DEMO_GPU_H_
#define DEMO_GPU_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace demo {

/** Select the first GPU. Throws demo::error with advice if there is none. */
void open_gpu();

/** Its product name. */
std::string gpu_name();

/** Whether it is one of the emulator's. */
bool gpu_is_emulated();

/** Device memory that nobody uses, in bytes, as HIP reports it. */
size_t free_device_memory();

/** A buffer in GPU memory. */
class gpu_buffer {
public:
    explicit gpu_buffer(size_t size);

    gpu_buffer(const gpu_buffer&)            = delete;
    gpu_buffer &operator=(const gpu_buffer&) = delete;

    ~gpu_buffer();

    void *address() const
    {
        return m_address;
    }

    size_t size() const
    {
        return m_size;
    }

    /** Give up ownership: the caller frees the address. */
    void *release();

    /** Fill with a pattern in which every eight bytes differ, and which
     *  another @a seed would make entirely different. */
    void fill(uint64_t seed);

    /** Number of bytes, from the start, that hold the pattern of @a seed. */
    size_t count_right(uint64_t seed) const;

private:
    void   *m_address = nullptr;
    size_t m_size;
};

} // namespace demo

#endif
