/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef CUDA_WORK_H_
#define CUDA_WORK_H_

#include "cuda_streams.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

namespace bench {

/** Completions of copies and flushes, each of one operation. */
class completion_pool {
public:
    explicit completion_pool(size_t size);

    completion_pool(const completion_pool&)            = delete;
    completion_pool &operator=(const completion_pool&) = delete;

    /** One that is not in use; its operation is outstanding until called. */
    uct_completion_t *take();

    /** Give back the one taken last: its operation was none. */
    void put_back(uct_completion_t *comp);

    size_t outstanding() const
    {
        return m_items.size() - m_unused.size();
    }

private:
    struct item {
        uct_completion_t super;
        completion_pool  *owner;
    };

    static void called(uct_completion_t *comp);

    std::vector<item>  m_items;
    std::vector<item*> m_unused;
    ucs_status_t       m_status = UCS_OK; /* of the first that failed */
};

/** Numbers of streams to measure with: 1, 4, 16, or all if there are less. */
std::set<size_t> stream_counts(const cuda_streams &streams);

/** Such a number in words. */
std::string of_streams(size_t count);

/** Copies and flushes of a transport that are under way. */
class cuda_work {
public:
    /** @param most How many operations there may be at a time. */
    cuda_work(const std::string &transport, size_t size, size_t most) :
        m_streams(make_cuda_streams(transport, size)), m_completions(most)
    {
    }

    const cuda_streams &streams() const
    {
        return *m_streams;
    }

    const cuda_transport &transport() const
    {
        return m_streams->transport();
    }

    size_t outstanding() const
    {
        return m_completions.outstanding();
    }

    /** Throws if the copy did not start. */
    void copy(size_t stream, size_t length);

    /** Flush the endpoint; throws if the flush did not start. */
    void flush();

    /** Flush it while nothing is outstanding. */
    void flush_nothing();

    /** Call progress until at most so many operations are outstanding.
     *  @return how often it was called. */
    long progress_until(size_t outstanding) const;

private:
    std::unique_ptr<cuda_streams> m_streams;
    completion_pool               m_completions;
};

} // namespace bench

#endif
