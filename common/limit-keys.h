/* Limits as keys of a section: read with errors that name the key, its form and its bounds. */
#pragma once

#include "common/keyfile.h"
#include "common/limits.h"

/* The key is this limit's. */
int limit_key_assign(struct Place *place, const struct LimitInfo *info, struct Limits *limits);
/* Any limit, and, with idle, a key of the idle policy. */
int limit_keys_assign(struct Place *place, struct Limits *limits, struct IdlePolicy *idle);
/* No limit that is set may be above the caps. section: where it was set, for the error. */
int limit_keys_check(struct Place *place, const char *section, struct Limits *limits, const struct Limits *caps);
