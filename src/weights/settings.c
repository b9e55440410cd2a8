#include "weights/settings.h"

static fn_status check_bits(const char *name, int bits, fn_error *err) {
    if (bits == 0 || bits == 4 || bits == 8 || bits == 16 || bits == 32) {
        return FN_OK;
    }
    return fn_fail(err, FN_E_USAGE, "%s: %d, expected 4, 8, 16, 32 or 0 (as stored)", name, bits);
}

fn_status fn_weight_settings_check(const fn_weight_settings *settings, fn_error *err) {
    size_t group = settings->group;
    fn_status status = check_bits("expert_bits", settings->expert_bits, err);
    status = status == FN_OK ? check_bits("dense_bits", settings->dense_bits, err) : status;
    if (status == FN_OK && group != 0 && group != 32 && group != 64 && group != 128) {
        status = fn_fail(err, FN_E_USAGE, "group_size: %zu, expected 32, 64 or 128", group);
    }
    return status;
}

fn_matrix_kind fn_weight_kind(int bits, fn_matrix_kind stored) {
    switch (bits) {
    case 4:
        return FN_MATRIX_INT4;
    case 8:
        return FN_MATRIX_INT8;
    case 16:
        return FN_MATRIX_BF16;
    case 32:
        return FN_MATRIX_F32;
    default:
        return stored;
    }
}

size_t fn_weight_group(const fn_weight_settings *settings, fn_matrix_kind kind, int bits) {
    bool ours = bits == 4 || bits == 8; /* stored codes keep the group they were made with */
    return ours && settings->group > 0 ? settings->group : fn_source_group(kind);
}
