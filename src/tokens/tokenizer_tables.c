#include "tokens/tokenizer_tables.h"

#include <string.h>

#include "base/hash.h"
#include "base/mem.h"
#include "tokens/utf8.h"

/* Ids of more digits are left to the JSON library. */
#define ID_DIGITS 9

/* Bytes [begin, end) of the text; end is NULL until they were found. */
typedef struct cut {
    const char *begin;
    const char *end;
} cut;

/* Where it stops is `at`; `status` is for memory alone. */
typedef struct scanner {
    const char *at;
    const char *end;
    fn_tokenizer_tables *out;
    char *room; /* where the next text without its escapes goes */
    cut vocab;
    cut merges;
    fn_status status;
    fn_error *err;
} scanner;

/* ---- lists ----------------------------------------------------------------------------------- */

fn_status fn_tokenizer_tables_add(fn_tokenizer_tables *t, const fn_vocab_entry *entry,
                                  fn_error *err) {
    void *items = t->vocab;
    if (!fn_grow(&items, &t->vocab_capacity, t->n_vocab + 1, sizeof *t->vocab)) {
        return fn_fail_nomem(err, "vocabulary", (t->n_vocab + 1) * sizeof *t->vocab);
    }
    t->vocab = items;
    t->vocab[t->n_vocab++] = *entry;
    return FN_OK;
}

fn_status fn_tokenizer_tables_add_merge(fn_tokenizer_tables *t, const fn_merge_entry *entry,
                                        fn_error *err) {
    void *items = t->merges;
    if (!fn_grow(&items, &t->merges_capacity, t->n_merges + 1, sizeof *t->merges)) {
        return fn_fail_nomem(err, "merges", (t->n_merges + 1) * sizeof *t->merges);
    }
    t->merges = items;
    t->merges[t->n_merges++] = *entry;
    return FN_OK;
}

bool fn_merge_split(const char *text, size_t n, fn_merge_entry *out) {
    const char *space = n > 0 ? memchr(text, ' ', n) : NULL;
    if (space == NULL) {
        return false;
    }
    size_t n_left = (size_t)(space - text);
    size_t n_right = n - n_left - 1;
    *out = (fn_merge_entry){.left = text, .n_left = n_left, .right = space + 1, .n_right = n_right};
    return n_right == 0 || memchr(space + 1, ' ', n_right) == NULL;
}

static uint32_t *find_slot(const fn_tokenizer_tables *t, const char *text, size_t n) {
    size_t at = (size_t)fn_hash_bytes(FN_HASH_START, text, n) & t->index_mask;
    while (t->index[at] != 0) {
        const fn_vocab_entry *there = &t->vocab[t->index[at] - 1];
        if (there->n == n && memcmp(there->text, text, n) == 0) {
            break;
        }
        at = (at + 1) & t->index_mask;
    }
    return &t->index[at];
}

fn_status fn_tokenizer_tables_index(fn_tokenizer_tables *t, bool *twice, fn_error *err) {
    size_t n_slots = 16;
    *twice = false;
    while (n_slots / 2 < t->n_vocab) {
        n_slots *= 2;
    }
    t->index = fn_alloc_zero(n_slots, sizeof *t->index);
    if (t->index == NULL) {
        return fn_fail_nomem(err, "vocabulary", n_slots * sizeof *t->index);
    }
    t->index_mask = n_slots - 1;
    for (size_t i = 0; i < t->n_vocab; i++) {
        uint32_t *slot = find_slot(t, t->vocab[i].text, t->vocab[i].n);
        *twice = *twice || *slot != 0;
        *slot = (uint32_t)i + 1;
    }
    return FN_OK;
}

int64_t fn_tokenizer_tables_find(const fn_tokenizer_tables *t, const char *text, size_t n) {
    uint32_t place = *find_slot(t, text, n);
    return place != 0 ? t->vocab[place - 1].id : -1;
}

void fn_tokenizer_tables_free(fn_tokenizer_tables *t) {
    fn_free(t->vocab);
    fn_free(t->merges);
    fn_free(t->rest);
    fn_free(t->unescaped);
    fn_free(t->index);
    *t = (fn_tokenizer_tables){0};
}

/* ---- JSON ------------------------------------------------------------------------------------ */

/* The byte where the scanner stands; 0 at the end. */
static char here(const scanner *s) {
    char c = 0;
    if (s->at < s->end) {
        c = *s->at;
    }
    return c;
}

/* The next byte that is no white space; 0 at the end. */
static char peek(scanner *s) {
    while (s->at < s->end &&
           (*s->at == ' ' || *s->at == '\n' || *s->at == '\r' || *s->at == '\t')) {
        s->at++;
    }
    return here(s);
}

static bool take(scanner *s, char c) {
    bool there = peek(s) == c;
    s->at += there ? 1 : 0;
    return there;
}

/* A text as it stands between its quotes; unchecked, as it stays in the JSON around the tables. */
static bool skip_text(scanner *s, const char **text, size_t *n) {
    if (!take(s, '"')) {
        return false;
    }
    const char *begin = s->at;
    while (s->at < s->end && *s->at != '"') {
        s->at += *s->at == '\\' && s->end - s->at > 1 ? 2 : 1;
    }
    if (s->at >= s->end) {
        return false;
    }
    *text = begin;
    *n = (size_t)(s->at++ - begin);
    return true;
}

/* Any value, up to the comma or bracket behind it. */
static bool skip_value(scanner *s) {
    size_t depth = 0;
    for (char c = peek(s); c != '\0'; c = peek(s)) {
        const char *text;
        size_t n;
        bool closes = c == '}' || c == ']';
        if (depth == 0 && (c == ',' || closes)) {
            return true;
        }
        if (c == '"') {
            if (!skip_text(s, &text, &n)) {
                return false;
            }
            continue;
        }
        depth += c == '{' || c == '[' ? 1 : 0;
        depth -= closes ? 1 : 0;
        s->at++;
    }
    return false;
}

static bool read_hex(const char *at, uint32_t *out) {
    *out = 0;
    for (int i = 0; i < 4; i++) {
        char c = at[i];
        uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                         : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10
                         : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A') + 10
                                                : 16;
        if (digit > 15) {
            return false;
        }
        *out = *out << 4 | digit;
    }
    return true;
}

/* What the escape at `at`, behind its backslash, stands for: written to s->room. Surrogates and NUL are unusual. */
static bool read_escape(scanner *s) {
    static const char names[] = "\"\\/bfnrt";
    static const char values[] = "\"\\/\b\f\n\r\t";
    char c = here(s);
    const char *name = c != '\0' ? strchr(names, c) : NULL;
    uint32_t code = 0;
    if (name != NULL) {
        *s->room++ = values[name - names];
        s->at++;
        return true;
    }
    if (c != 'u' || s->end - s->at < 5 || !read_hex(s->at + 1, &code) || code == 0 ||
        (code >= 0xD800 && code < 0xE000)) {
        return false;
    }
    s->room += fn_utf8_put(code, (unsigned char *)s->room);
    s->at += 5;
    return true;
}

/* The rest of a text from its first escape on; what came before, [n], is copied. */
static bool read_escaped(scanner *s, const char *begin, const char **text, size_t *n) {
    if (s->out->unescaped == NULL) {
        size_t most = (size_t)(s->end - begin); /* no escape is shorter than what it stands for */
        s->out->unescaped = fn_alloc(most, 1);
        if (s->out->unescaped == NULL) {
            s->status = fn_fail_nomem(s->err, "vocabulary", most);
            return false;
        }
        s->room = s->out->unescaped;
    }
    *text = s->room;
    memcpy(s->room, begin, (size_t)(s->at - begin));
    s->room += s->at - begin;
    while (s->at < s->end && *s->at != '"') {
        unsigned char c = (unsigned char)*s->at++;
        if (c < 0x20 || (c == '\\' && !read_escape(s))) {
            return false;
        }
        if (c != '\\') {
            *s->room++ = (char)c;
        }
    }
    *n = (size_t)(s->room - *text);
    return s->at < s->end;
}

/* A text of a table, without its escapes; checked as the JSON library would. */
static bool read_text(scanner *s, const char **text, size_t *n) {
    if (!take(s, '"')) {
        return false;
    }
    const char *begin = s->at;
    const char *at = begin;
    unsigned char all = 0;
    while (at < s->end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20) {
        all |= (unsigned char)*at++;
    }
    s->at = at;
    if (at == s->end) {
        return false;
    }
    *text = begin;
    *n = (size_t)(at - begin);
    if (*at == '\\' && !read_escaped(s, begin, text, n)) {
        return false;
    }
    bool ascii = all < 0x80 && *text == begin;
    return *s->at++ == '"' &&
           (ascii || fn_utf8_valid_prefix((const unsigned char *)*text, *n) == *n);
}

static bool read_id(scanner *s, int64_t *id) {
    int digits = 0;
    char first = peek(s);
    *id = 0;
    for (; s->at < s->end && *s->at >= '0' && *s->at <= '9' && digits <= ID_DIGITS; s->at++) {
        *id = *id * 10 + (*s->at - '0');
        digits++;
    }
    return digits > 0 && digits <= ID_DIGITS && (first != '0' || digits == 1);
}

/* ---- the tables ------------------------------------------------------------------------------ */

/* {"text": id, ...} */
static bool read_vocab(scanner *s) {
    if (!take(s, '{')) {
        return false;
    }
    bool more = !take(s, '}');
    while (more) {
        fn_vocab_entry entry;
        if (!read_text(s, &entry.text, &entry.n) || !take(s, ':') || !read_id(s, &entry.id)) {
            return false;
        }
        s->status = fn_tokenizer_tables_add(s->out, &entry, s->err);
        more = take(s, ',');
        if (s->status != FN_OK || (!more && !take(s, '}'))) {
            return false;
        }
    }
    return true;
}

/* ["left right" or ["left", "right"], ...] */
static bool read_merges(scanner *s) {
    if (!take(s, '[')) {
        return false;
    }
    bool more = !take(s, ']');
    while (more) {
        fn_merge_entry entry;
        const char *text;
        size_t n;
        bool good = take(s, '[') ? read_text(s, &entry.left, &entry.n_left) && take(s, ',') &&
                                       read_text(s, &entry.right, &entry.n_right) && take(s, ']')
                                 : read_text(s, &text, &n) && fn_merge_split(text, n, &entry);
        if (!good) {
            return false;
        }
        s->status = fn_tokenizer_tables_add_merge(s->out, &entry, s->err);
        more = take(s, ',');
        if (s->status != FN_OK || (!more && !take(s, ']'))) {
            return false;
        }
    }
    return true;
}

static bool read_table(scanner *s, bool (*read)(scanner *s), cut *place) {
    (void)peek(s);
    const char *begin = s->at;
    if (place->end != NULL || !read(s)) {
        return false;
    }
    *place = (cut){begin, s->at};
    return true;
}

static bool is_key(const char *key, size_t n, const char *name) {
    return n == strlen(name) && memcmp(key, name, n) == 0;
}

/* Members of an object: of the whole file, and of its "model". */
static bool read_members(scanner *s, bool in_model) {
    bool more = take(s, '{');
    bool good = more;
    while (good && more) {
        const char *key;
        size_t n;
        good = skip_text(s, &key, &n) && take(s, ':');
        if (!good) {
            break;
        }
        if (in_model && is_key(key, n, "vocab")) {
            good = read_table(s, read_vocab, &s->vocab);
        } else if (in_model && is_key(key, n, "merges")) {
            good = read_table(s, read_merges, &s->merges);
        } else if (!in_model && is_key(key, n, "model")) {
            good = read_members(s, true);
        } else {
            good = skip_value(s);
        }
        more = good && take(s, ',');
    }
    return good && take(s, '}');
}

/* The text without the two cuts, an empty table in the place of each. */
static fn_status keep_rest(const scanner *s, const char *json, fn_error *err) {
    fn_tokenizer_tables *out = s->out;
    bool vocab_first = s->vocab.begin < s->merges.begin;
    const cut *first = vocab_first ? &s->vocab : &s->merges;
    const cut *second = vocab_first ? &s->merges : &s->vocab;
    size_t before = (size_t)(first->begin - json);
    size_t between = (size_t)(second->begin - first->end);
    size_t behind = (size_t)(s->end - second->end);
    out->n_rest = before + between + behind + 4;
    out->rest = fn_alloc(out->n_rest, 1);
    if (out->rest == NULL) {
        return fn_fail_nomem(err, "tokenizer", out->n_rest);
    }
    char *at = out->rest;
    memcpy(at, json, before);
    memcpy(at += before, vocab_first ? "{}" : "[]", 2);
    memcpy(at += 2, first->end, between);
    memcpy(at += between, vocab_first ? "[]" : "{}", 2);
    memcpy(at + 2, second->end, behind);
    return FN_OK;
}

fn_status fn_tokenizer_tables_take(const char *json, size_t n, fn_tokenizer_tables *out,
                                   fn_error *err) {
    scanner s = {.at = json, .end = json + n, .out = out, .err = err};
    bool twice = false;
    *out = (fn_tokenizer_tables){0};
    bool usual = read_members(&s, false) && s.vocab.end != NULL && s.merges.end != NULL;
    fn_status status = s.status;
    if (status == FN_OK && usual) {
        status = fn_tokenizer_tables_index(out, &twice, err);
    }
    if (status == FN_OK && usual && !twice) {
        status = keep_rest(&s, json, err);
        out->taken_out = status == FN_OK;
    }
    if (!out->taken_out) {
        fn_tokenizer_tables_free(out);
    }
    return status;
}
