/* The alternatives of the rule, in its order, M standing for marks or for nothing:
 *   (?i:'s|'t|'re|'ve|'m|'ll|'d)            contraction
 *   [^\r\n\p{L}\p{N}]?[\p{L}M]+             word, with one character of any other kind before it
 *   \p{N}                                   digit
 *    ?[^\s\p{L}M\p{N}]+[\r\n]*              punctuation, with a space before and line ends behind
 *   \s*[\r\n]+                              white space to the last line end of its run
 *   \s+(?!\S)                               white space, all but the last before something else
 *   \s+                                     white space */
#include "tokens/pretokenize.h"

#include <stdbool.h>
#include <string.h>

#include "tokens/unicode_tables.h"
#include "tokens/utf8.h"

static const char *const regexes[] = {
    [FN_SPLIT_NONE] = "",
    [FN_SPLIT_QWEN2] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}|"
                       " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
    [FN_SPLIT_QWEN35] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|"
                        "\\p{N}| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|"
                        "\\s+",
};

fn_split_rule fn_split_rule_find(const char *regex) {
    return strcmp(regex, regexes[FN_SPLIT_QWEN35]) == 0  ? FN_SPLIT_QWEN35
           : strcmp(regex, regexes[FN_SPLIT_QWEN2]) == 0 ? FN_SPLIT_QWEN2
                                                         : FN_SPLIT_NONE;
}

const char *fn_split_rule_regex(fn_split_rule rule) {
    return regexes[rule];
}

typedef struct scan {
    const unsigned char *s; /* [n] */
    size_t n;
    unsigned word; /* the classes words are made of */
    unsigned punctuation_not;
} scan;

static unsigned class_at(const scan *p, size_t at, size_t *length) {
    return fn_unicode_class(fn_utf8_get(p->s + at, length));
}

/* The end of the run of characters from `at` that have one of the classes. */
static size_t run_of(const scan *p, size_t at, unsigned classes) {
    size_t length = 0;
    while (at < p->n && (class_at(p, at, &length) & classes) != 0) {
        at += length;
    }
    return at;
}

static bool is_line_end(unsigned char byte) {
    return byte == '\r' || byte == '\n';
}

/* The length of a contraction at an apostrophe, 0 if there is none. Ignoring case, the regular
 * expression's engine takes U+017F (long s, C5 BF) for an s as well. */
static size_t contraction(const scan *p) {
    const unsigned char *s = p->s;
    if (p->n < 2) {
        return 0;
    }
    unsigned a = s[1] | 0x20u;
    if (s[1] < 0x80 && (a == 's' || a == 't' || a == 'm' || a == 'd')) {
        return 2;
    }
    if (p->n < 3) {
        return 0;
    }
    if (s[1] == 0xC5 && s[2] == 0xBF) {
        return 3;
    }
    unsigned b = s[2] | 0x20u;
    bool two = ((a == 'r' || a == 'v') && b == 'e') || (a == 'l' && b == 'l');
    return two && s[1] < 0x80 && s[2] < 0x80 ? 3 : 0;
}

static size_t white_space(const scan *p) {
    size_t end = 0;
    size_t last = 0;     /* where the last character of the run starts */
    size_t line_end = 0; /* behind the last \r or \n of the run */
    size_t length = 0;
    while (end < p->n && (class_at(p, end, &length) & FN_UC_SPACE) != 0) {
        last = end;
        end += length;
        line_end = is_line_end(p->s[last]) ? end : line_end;
    }
    if (line_end > 0) {
        return line_end;
    }
    return end == p->n || last == 0 ? end : last;
}

/* Punctuation from `at`, behind which line ends belong to the piece. */
static size_t punctuation(const scan *p, size_t at) {
    size_t length = 0;
    while (at < p->n && (class_at(p, at, &length) & p->punctuation_not) == 0) {
        at += length;
    }
    while (at < p->n && is_line_end(p->s[at])) {
        at++;
    }
    return at;
}

size_t fn_split_next(fn_split_rule rule, const char *text, size_t n) {
    unsigned word = rule == FN_SPLIT_QWEN35 ? FN_UC_LETTER | FN_UC_MARK : FN_UC_LETTER;
    scan p = {.s = (const unsigned char *)text,
              .n = n,
              .word = word,
              .punctuation_not = word | FN_UC_NUMBER | FN_UC_SPACE};
    size_t first = 0;
    unsigned class = class_at(&p, 0, &first);
    size_t length = p.s[0] == '\'' ? contraction(&p) : 0;
    if (length > 0) {
        return length;
    }
    if ((class & word) != 0) {
        return run_of(&p, first, word);
    }
    if ((class & FN_UC_NUMBER) != 0) {
        return first;
    }
    unsigned second = first < n ? class_at(&p, first, &length) : 0;
    if ((second & word) != 0 && !is_line_end(p.s[0])) {
        return run_of(&p, first, word);
    }
    if ((class & FN_UC_SPACE) == 0) {
        return punctuation(&p, 0);
    }
    if (p.s[0] == ' ' && first < n && (second & p.punctuation_not) == 0) {
        return punctuation(&p, first);
    }
    return white_space(&p);
}
