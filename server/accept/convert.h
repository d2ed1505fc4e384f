/* Requests of the wire become plain C. */
#pragma once

#include "server/accept/message.h"
#include "server/request.h"

/* An ExecuteRequest; takes the parcel, which the request then owns. 0 or a RefusalCode. */
int convert_request(struct Parcel *p, struct Request *ret, struct Refusal *refusal);
