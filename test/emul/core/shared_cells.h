/*
 * SPDX-License-Identifier: BSD-3-Clause
 * See file LICENSE for terms.
 */

#ifndef EMUL_CORE_SHARED_CELLS_H_
#define EMUL_CORE_SHARED_CELLS_H_

#include "handle.h"
#include "layout.h"

/*
 * Cells in the memory of the node, shared between processes by handle. A cell
 * exists as long as its creator or anybody who attached it has not released it;
 * it can be attached as long as its creator has not closed it.
 */

namespace emul {

/** @return Index of a new cell of this process, or nobody if none is left. */
unsigned shared_cell_create(int64_t value);

/** No further attach from now on. Only the creator. */
void shared_cell_close(unsigned index);

/** The creator, or who attached, will not touch it any more. */
void shared_cell_release(unsigned index);

/** @return The handle of a cell of this process. */
handle shared_cell_export(unsigned index);

/** With EMUL_LATE_ATTACH=block, wait as long as the handle's owner lives but
 *  has closed its cell. */
void shared_cell_wait_attachable(const handle &h);

/** Attach.
 *  @param index_p  Filled with the index on attach_result::done; a cell that
 *                  this process holds already gives the same index. */
attach_result shared_cell_attach(const handle &h, unsigned *index_p);

cell &shared_cell_content(unsigned index);

/** A process is gone. Node lock held. */
void shared_cells_drop_process(unsigned slot);

} // namespace emul

#endif
