/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_TABLE_H_
#define EMUL_CORE_TABLE_H_

#include "layout.h"

#include <algorithm>

namespace emul {

/**
 * Find a free record of a table without a free list, which a killed process
 * could leave broken. A few of the used part are tried first, then the table
 * grows; only a full one is searched completely.
 *
 * @param used      How many records were ever used.
 * @param hint      Where to begin, for the next time.
 * @param is_free   Of an index below @a used.
 * @return nobody if the table is full.
 */
template<typename predicate>
unsigned table_find_free(unsigned used, unsigned capacity, unsigned *hint,
                         predicate is_free)
{
    unsigned looks = (used < capacity) ? std::min(used, 32u) : used;
    unsigned index;

    for (unsigned i = 0; i < looks; ++i) {
        index = (*hint + i) % used;
        if (is_free(index)) {
            *hint = index + 1;
            return index;
        }
    }

    *hint += looks;
    return (used < capacity) ? used : nobody;
}

} // namespace emul

#endif
