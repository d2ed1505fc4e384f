/* Where the making of a cell spends its time, for ./dev bench. In the product a trace point is nothing at all; the spawner that bench measures
 * is compiled once more with GLOVEBOX_TRACE and linked to tests/bench/trace.c. */
#pragma once

#ifdef GLOVEBOX_TRACE
/* What this process has just finished; "" = it begins. Async-signal-safe. */
void trace(const char *what);
#else
#define trace(what) ((void) 0)
#endif
