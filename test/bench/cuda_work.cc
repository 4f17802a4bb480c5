/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#include "cuda_work.h"

#include <algorithm>

namespace bench {

completion_pool::completion_pool(size_t size) : m_items(size)
{
    for (item &unused : m_items) {
        unused.super.func = called;
        unused.owner      = this;
        m_unused.push_back(&unused);
    }
}

void completion_pool::called(uct_completion_t *comp)
{
    item *const done = reinterpret_cast<item*>(comp);

    if (comp->status != UCS_OK) {
        done->owner->m_status = comp->status;
    }

    done->owner->m_unused.push_back(done);
}

uct_completion_t *completion_pool::take()
{
    check_ucx(m_status, "copy or flush");
    if (m_unused.empty()) {
        throw demo::error("there are more operations than expected");
    }

    item *const taken = m_unused.back();

    m_unused.pop_back();
    taken->super.count  = 1;
    taken->super.status = UCS_OK;
    return &taken->super;
}

void completion_pool::put_back(uct_completion_t *comp)
{
    m_unused.push_back(reinterpret_cast<item*>(comp));
}

std::set<size_t> stream_counts(const cuda_streams &streams)
{
    std::set<size_t> counts;

    for (const size_t wanted : {1, 4, 16}) {
        counts.insert(std::min(wanted, streams.count()));
    }

    return counts;
}

std::string of_streams(size_t count)
{
    return std::to_string(count) + ((count == 1) ? " stream" : " streams");
}

static void check_started(ucs_status_t status, const char *what)
{
    if (status != UCS_INPROGRESS) {
        throw demo::error(std::string(what) + " was to be in progress, and UCX"
                          " says: " + ucs_status_string(status));
    }
}

void cuda_work::copy(size_t stream, size_t length)
{
    check_started(m_streams->copy(stream, length, m_completions.take()),
                  "a copy");
}

void cuda_work::flush()
{
    check_started(uct_ep_flush(m_streams->ep(), 0, m_completions.take()),
                  "a flush");
}

void cuda_work::flush_nothing()
{
    uct_completion_t *const comp = m_completions.take();

    check_ucx(uct_ep_flush(m_streams->ep(), 0, comp), "flush");
    m_completions.put_back(comp);
}

long cuda_work::progress_until(size_t outstanding) const
{
    long calls = 0;

    while (m_completions.outstanding() > outstanding) {
        transport().progress();
        ++calls;
    }

    return calls;
}

} // namespace bench
