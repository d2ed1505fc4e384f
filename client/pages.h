/* ListExecutions, page by page. */
#pragma once

#include <glovebox/v1/execution.pb-c.h>

#include "client/channel.h"

/* Takes the page over. Not 0 ends the list. */
typedef int (*PageTaker)(void *userdata, Glovebox__V1__ListExecutionsResponse *page);

/* caller: NULL for one's own, another's name or "*" for operators. 0, what the taker returned, or STATUS_FAULT after saying why. */
int pages_list(struct Channel *channel, const char *caller, bool active_only, PageTaker take, void *userdata);
