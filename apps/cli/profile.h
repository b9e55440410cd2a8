/* cli/profile.h - time by class, in JSON and as lines. */
#ifndef CLI_PROFILE_H
#define CLI_PROFILE_H

#include <jansson.h>

#include "flashnext_tools.h"

/* {class: seconds}, of the classes that took any. */
json_t *cli_profile_json(const fn_profile *profile);
/* A line a class, with its share. */
void cli_profile_print(const json_t *profile);

#endif
