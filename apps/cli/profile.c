#include "cli/profile.h"

#include <stdio.h>

static const char *const class_names[] = {
#define PROFILE_NAME(name, text) text,
    FN_PROFILE_MAP(PROFILE_NAME)
#undef PROFILE_NAME
};

json_t *cli_profile_json(const fn_profile *profile) {
    json_t *object = json_object();
    for (size_t i = 0; i < FN_PROFILE_CLASSES; i++) {
        if (profile->seconds[i] > 0.0) {
            (void)json_object_set_new(object, class_names[i], json_real(profile->seconds[i]));
        }
    }
    return object;
}

void cli_profile_print(const json_t *profile) {
    double all = 0.0;
    for (size_t i = 0; i < FN_PROFILE_CLASSES; i++) {
        all += json_number_value(json_object_get(profile, class_names[i]));
    }
    for (size_t i = 0; i < FN_PROFILE_CLASSES; i++) {
        const json_t *seconds = json_object_get(profile, class_names[i]);
        if (seconds != NULL) {
            printf("  %-30s %6.2f %%\n", class_names[i], 100.0 * json_number_value(seconds) / all);
        }
    }
}
