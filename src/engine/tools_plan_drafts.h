/* engine/tools_plan_drafts.h - what drafting with the MTP head is worth, by bytes read; private to the plan. */
#ifndef FN_ENGINE_TOOLS_PLAN_DRAFTS_H
#define FN_ENGINE_TOOLS_PLAN_DRAFTS_H

#include <jansson.h>

#include "weights/plan.h"

/* With guesses that hold as they were measured on the released model (0.86, 0.68, 0.57 of the passes at the first,
 * second, third place): {"rows", "distinct_experts" a layer, "tokens_per_pass", "pass_read" bytes, "speed" over
 * plain decoding}. state_read: bytes of one row's state. */
json_t *fn_plan_drafts(const fn_shape *shape, const fn_memory_plan *plan, uint64_t state_read);

#endif
