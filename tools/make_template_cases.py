#!/usr/bin/env python3
"""Writes tests/data/template/cases.json: what jinja2 makes of many small and four real templates.

The answers come from jinja2 itself, in the environment that transformers renders chat templates in.
Usage: tools/make_template_cases.py   (needs transformers and jinja2)
"""

import json
import pathlib

import jinja2
from transformers.utils.chat_template_utils import _compile_jinja_template

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "data" / "template"

CONTEXT = """{"s": "Hello, World", "t": "  spaced\\u00a0out \\n", "e": "", "u": "Füße ΑΣ ǆ 你好 😀", "n": 7, "z": 0,
 "neg": -3, "f": 2.5, "tiny": 1e-7, "huge": 1e16, "big": 123456789012345678901234567890,
 "yes": true, "no": false, "nil": null, "list": [3, 1, 2], "words": ["pear", "Apple", "fig", "apple"],
 "mixed": [1, "a", null, true, 2.0, [1], {"k": "v"}], "empty": [], "none": {},
 "d": {"b": 2, "a": 1, "items": "key", "nested": {"x": [10, {"y": "deep"}]}, "C": 3},
 "people": [{"name": "Ann", "age": 30, "tags": ["x"]}, {"name": "bob", "age": 25}, {"name": "Cid", "age": 30, "vip": true}],
 "lines": "one\\ntwo\\r\\n\\nthree", "html": "<a href=\\"x\\">'&'</a>", "q": "it's \\"q\\" \\\\ \\t \\u0001 \\u200b é",
 "messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]}"""

# Each line is an expression, printed with CONTEXT.
EXPRESSIONS = r"""
1 + 2 * 3 - 4
(1 + 2) * 3
7 // 2, 7 % 3, -7 // 2, -7 % 3, 7 % -3, -7 // -2
7 / 2, 6 / 3, 1 / 3
2 ** 10, 2 ** -1, 2 ** 3 ** 2, -2 ** 2
2 ** 0.5
7.5 // 2, 7.5 % 2, -7.5 // 2, -7.5 % 2, 1e300 * 10
1e16, 1e15, 123456789.125, 0.1 + 0.2, 1e-4, 1e-5, 5e-324, 1.7976931348623157e308, 100.0, -0.0
1_000, 0x1F, 0b101, 0o17, 1_0.5_0, 1e3, 00
tiny, huge, big, f, neg
big == 123456789012345678901234567890, big > 1, big < 1.5, big in [big]
big | string | length
big is integer, big is number, big is float
9223372036854775807, -9223372036854775808, 9223372036854775808
1 == 1.0, 1 == true, 'a' == 'a', 1 == '1', none == none, [1, 2] == [1, 2], (1, 2) == [1, 2], {'a': 1} == {'a': 1.0}
1 < 2 < 3, 1 < 2 > 3, 3 > 2 >= 2 != 1
'a' < 'b', 'B' < 'a', [1, 2] < [1, 3], [1] < [1, 0], (1, 'a') <= (1, 'a'), 'é' > 'z'
1 in [1, 2], 'ell' in s, 'x' not in s, 'a' in d, 1 in {1: 2}, '' in '', 3 in (1, 2), 1.0 in [1]
not 1, not '', not none, not [] and 1
1 and 2, 0 and 2, 1 or 2, 0 or '' or [], none or 'x'
'a' if yes else 'b', 'a' if no else 'b', ('a' if no)
'a' if no else 'b' if no else 'c'
s ~ 1 ~ none ~ true ~ 1.0 ~ [1, 'x']
'a' + 'b', 'ab' * 3, 3 * 'ab', [1] + [2], (1,) + (2,), [0] * 3, 'x' * 0, 'x' * -1
'con' 'cat' "enated"
[1, 'two', none, true, 2.5, [1], (1,), (), {}, {'a': [1]}]
{'a': 1, 'b': {'c': "it's"}, 1: 2, none: 3, true: 4, 2.5: 5}
[q], [u], [html], ['\x00\x7f\xa0\xad\u2028\U0001F600']
'\n\t\\\'\"\a\b\f\v\x41\u00e9\U0001F600\101\q' | tojson
'line \
continued'
s[0], s[-1], s[1:4], s[:-1], s[::2], s[::-1], s[5:1], s[5:1:-1], s[-5:], s[100:], s[:100], s[-100:2]
u[0], u[1], u[-1], u[::-1], u[2:6], u[::2]
list[0], list[-1], list[1:], list[::-1], list[:2], list[::2], list[5:], (1, 2, 3)[::-1]
list[9], list[9] is defined, s[99] is defined, d['zz'] is defined, d.zz is defined
d.a, d['a'], d['items'], d.nested.x[1].y, d['nested']['x'][0], d.nested.x.1.y
d.items is callable, d.keys() | list, d.values() | list, d.items() | list
d.get('a'), d.get('zz'), d.get('zz', 5)
d.items(), d.keys(), {}.values()
range(3), range(1, 4) | list, range(10, 0, -3) | list, range(0), range(2, 8)[1], range(10)[2:5], range(5) | length
dict(a=1, b=2), dict([('x', 1)], y=2), dict({'k': 1}), dict()
namespace(a=1).a
undefined_thing, undefined_thing is defined, undefined_thing is undefined, [undefined_thing]
undefined_thing | default('dflt'), undefined_thing | d, nil | default('x'), nil | default('x', true), e | d('x', true), 0 | d(5, boolean=true)
undefined_thing ~ 'x', undefined_thing == undefined_thing, undefined_thing == none, undefined_thing or 'or'
undefined_thing | length, undefined_thing | list, undefined_thing | join('x'), undefined_thing | string, undefined_thing | trim, undefined_thing | upper
'x' in undefined_thing, undefined_thing | items | list
nil, yes, no, [nil, yes, no], nil | string | length
t | trim, t | trim | length, '  x '.strip(), 'xxaxx' | trim('x'), 'xxaxx'.strip('x'), 'abcab'.lstrip('ab'), 'abcab'.rstrip('ab')
'\u2003\u3000x\u205f\u00a0\x1c' | trim, '\u200bx\u200b' | trim | length, '\ufeffx'.strip() | length
s.upper(), s.lower(), s.title(), s.capitalize(), s.swapcase(), s | upper, s | lower, s | title, s | capitalize
u.upper(), u.lower(), u.title(), u.capitalize(), u | title, 'ŉﬁǆ'.title(), 'ﬁx ßa'.capitalize(), 'ΣΑΣ ΣΑΣ.Σ'.lower(), 'İI'.lower()
"they're bill's o'neil-x (foo) [bar] <baz>" | title, "they're bill's".title(), 'a1b2 c'.title()
'Straße'.casefold()
s.split(), s.split(','), s.split('l'), s.split('l', 1), ' a  b '.split(), ' a  b '.split(' '), ''.split(), ''.split(','), 'a b c'.split(none, 1), 'a,b,c'.split(',', -1)
s.rsplit('l', 1), 'a b  c'.rsplit(), 'a b  c d'.rsplit(none, 2), 'a,b,c'.rsplit(',', 1)
lines.splitlines(), lines.splitlines(true), 'a\x0bb\x0cc\x1cd\x85e\u2028f\n'.splitlines()
s.startswith('Hell'), s.startswith(('x', 'H')), s.endswith('ld'), s.startswith('World', 7), s.endswith('lo', 0, 5), s.startswith(''), s.endswith(('x',))
s.replace('l', 'L'), s.replace('l', 'L', 1), s.replace('', '-'), s.replace('zz', 'y'), 'aaa'.replace('aa', 'b'), s | replace('o', '0'), s | replace('l', 'L', 2), 12 | replace(1, 3)
s.find('o'), s.find('o', 5), s.rfind('o'), s.find('zz'), s.index('W'), s.count('l'), s.count(''), 'aaaa'.count('aa'), u.find('你'), s.find('')
s.join(['a', 'b']), ', '.join(words), ''.join('abc'), '-'.join({'x': 1, 'y': 2})
'{} {}'.format(1, 'a'), '{1}{0}'.format('a', 'b'), '{x} {y[k]} {z.a}'.format(x=1, y={'k': 'v'}, z={'a': 9}), '{{}}{:>5}|{:<5}|{:^5}|{:*^7}'.format('a', 'b', 'c', 'd')
'{:05d} {:,} {:x} {:#x} {:b} {:+d} {:.2f} {:8.3f} {:e} {:g} {:%} {!r} {!s}'.format(42, 1234567, 255, 255, 5, 3, 2.345, 3.14159, 12345.678, 0.0001, 0.256, 'q', 'q')
'{:{}}|'.format('a', 5), '{:.3}'.format('abcdef'), '{:>{w}}'.format(1, w=4), '{}'.format(none), '{}'.format([1]), '{:5}|{:<5}|'.format(1, 2), '{0:_}'.format(1234567), '{:=+6}'.format(5)
'%s %d %5.2f %r %x %%' % ('a', 3, 2.5, 'q', 255), '%s' % 'x', '%s' % [1], '%(a)s-%(b)d' % {'a': 1, 'b': 2}, '%05d|%-5s|%5s|%+d' % (3, 'a', 'b', 4), '%c%c' % (65, 'b'), '%e %g %G' % (1e10, 1e-5, 1e20), '%i' % 3.9
'%s and %s' | format('a', 1), '%(x)s' | format(x=5), '%.3f' | format(2)
'abc'.isalpha(), 'abc1'.isalnum(), '12'.isdigit(), '١٢'.isdecimal(), ' '.isspace(), ''.isspace(), 'a'.islower(), 'A1'.isupper(), 'é'.isascii(), '½'.isnumeric()
'abc'.center(8), 'abc'.center(8, '*'), 'ab'.center(5, '*'), 'abc'.ljust(5) ~ '|', 'abc'.rjust(5, '.'), '42'.zfill(5), '-42'.zfill(5), 'abc'.zfill(2), 'x' | center(5) ~ '|'
'a-b-c'.partition('-'), 'a-b-c'.rpartition('-'), 'abc'.partition('-'), 'abc'.rpartition('-'), 'prefix'.removeprefix('pre'), 'suffix'.removesuffix('fix'), 'abc'.removeprefix('x')
undefined_thing | last is defined, nil | map(attribute='x') | list, 'a' % undefined_thing, list | truncate(9), undefined_thing | truncate, html | e | list | first, [] | sort(attribute='q'), '\u00df' | title
list | length, s | length, u | length, d | count, e | length, empty | length
list | first, list | last, s | first, s | last, empty | first, empty | last is defined, d | first
list | sort, words | sort, words | sort(case_sensitive=true), words | sort(reverse=true), words | sort(true), list | sort(reverse=true)
people | sort(attribute='age') | map(attribute='name') | list, people | sort(attribute='age,name', reverse=true) | map(attribute='name') | join(' ')
people | map(attribute='name') | list, people | map(attribute='vip', default=false) | list, people | map(attribute='tags.0', default='-') | list, people | map(attribute='zz') | list
words | map('upper') | list, words | map('replace', 'p', 'P') | list, list | map('string') | join('+'), words | map('length') | sum, words | map('default', 'x') | first
people | selectattr('vip') | map(attribute='name') | list, people | selectattr('age', 'equalto', 30) | list | length, people | rejectattr('vip', 'defined') | map(attribute='name') | list, people | selectattr('age', 'gt', 26) | map(attribute='name') | join
list | select('odd') | list, list | reject('odd') | list, mixed | select('string') | list, mixed | select | list | length, list | select('in', [1, 2]) | list, list | select('divisibleby', 3) | list, list | select('>=', 2) | list
list | reverse | list, s | reverse, d | reverse | list, (1, 2) | reverse | list
list | sum, people | sum(attribute='age'), list | sum(start=10), [0.5, 1] | sum, [] | sum, [[1], [2]] | sum(start=[])
list | min, list | max, words | min, words | max, words | max(case_sensitive=true), people | max(attribute='age'), empty | min is defined, [1, 2.5, true] | max
words | unique | list, words | unique(case_sensitive=true) | list, [1, 1.0, true, 2] | unique | list, people | unique(attribute='age') | map(attribute='name') | list
d | dictsort, d | dictsort(true), d | dictsort(reverse=true), {'a': 2, 'b': 1} | dictsort(by='value'), {'B': 1, 'a': 2} | dictsort(case_sensitive=false)
d | items | list, none | items | list, {} | items | list
people | groupby('age') | list | length, people | groupby('age') | map('first') | list, (people | groupby('age'))[0].grouper, (people | groupby('age'))[1].list | map(attribute='name') | list, people | groupby('vip', default=false) | map('list') | map('first') | list
list | batch(2) | list, list | batch(2, 'x') | list, range(7) | slice(3) | list, range(7) | slice(3, 'x') | list, [] | batch(2) | list
list | join(', '), list | join, words | join('-'), people | join(', ', attribute='name'), 'abc' | join('.'), d | join(','), [1, none, true] | join(',')
s | list, list | list, d | list, range(3) | list, 12 | string ~ 3, [1] | string
'42' | int, 'x' | int, 'x' | int(7), '0x1f' | int(base=16), '1f' | int(0, 16), 3.99 | int, -3.99 | int, '3.7' | int, true | int, ' 12 ' | int, '1_000' | int, none | int, '1e3' | int, [] | int(default=-1)
'2.5' | float, 'x' | float, 'x' | float(1.5), 3 | float, ' 1e3 ' | float, 'inf' | float, '-Infinity' | float, none | float, true | float
2.5 | round, 3.5 | round, 2.675 | round(2), 1234.5 | round(-2), 42 | round, 2.1 | round(method='ceil'), 2.9 | round(0, 'floor'), 2.123 | round(1, 'ceil'), -2.5 | round, 0.5 | round | int, 1e20 | round
-5 | abs, 5.5 | abs, (-5) | abs, neg | abs, -0.0 | abs, true | abs, big | abs
html | escape, html | e, html | safe, html | safe | escape, html | forceescape, 'a' | escape is escaped, 1 | e
lines | indent, lines | indent(2), lines | indent(2, true), lines | indent(2, blank=true), lines | indent('> ', first=true), 'x' | indent, '' | indent(2, true)
'foo bar baz qux' | truncate(9), 'foo bar baz qux' | truncate(9, true), 'foo bar baz qux' | truncate(11), 'foo bar baz qux' | truncate(9, leeway=0), 'foo bar baz qux' | truncate(9, end='…', leeway=0), 'short' | truncate
'foo bar-baz, q_x 12 é' | wordcount, '' | wordcount
d | tojson, mixed | tojson, u | tojson, q | tojson, q | tojson(ensure_ascii=true), u | tojson(true), 1.0 | tojson, big | tojson, [1, [2, {}], []] | tojson
d | tojson(indent=2)
mixed | tojson(indent=4)
d | tojson(indent='\t', sort_keys=true)
d | tojson(separators=(',', ':')), d | tojson(sort_keys=true, separators=[' , ', ' : ']), {1: 1, none: 2, true: 3, 1.5: 4} | tojson, (1, 2) | tojson, '</script>\x7f\u2028' | tojson
tiny | tojson, huge | tojson, [1e22, 1e21, 0.1, 3.0, -0.0, 1.5e-10] | tojson
1 is defined, s is string, 1 is string, 1 is number, 1.0 is number, '1' is number, yes is number, yes is boolean, 1 is boolean, none is none, 0 is none
1 is integer, 1.0 is integer, yes is integer, 1.0 is float, 1 is float, d is mapping, list is mapping, list is sequence, s is sequence, d is sequence, 1 is sequence, range(3) is sequence
list is iterable, s is iterable, 1 is iterable, d is iterable, none is iterable, (list | map('string')) is iterable, (list | map('string')) is sequence, d.items() is sequence
true is true, 1 is true, false is false, 0 is false, yes is true, no is false, 'x' is true
3 is odd, 4 is even, 9 is divisibleby 3, 9 is divisibleby(2), 'a' is lower, 'A' is upper, 'aB' is lower, '1' is upper
1 is eq 1, 1 is equalto 2, 1 is ne 2, 1 is lt 2, 1 is lessthan 2, 2 is gt 1, 2 is greaterthan 1, 1 is le 1, 1 is ge 2, 1 is == 1 if false else 'x'
1 is in [1, 2], 'a' is in 'abc', 3 is in(list), 5 is not in list, 'a' is not string, nil is not none
'upper' is filter, 'nope' is filter, 'odd' is test, 'nope' is test, none is sameas none, true is sameas true, 1 is sameas true
range is callable, raise_exception is callable, s is callable, s.upper is callable, dict is callable
not s is string, not (s is string), s is string and 1 is number, s is string or zz
list | map('abs') | map('string') | list | tojson
(list | map(attribute='x'))|list|length
d.items() | map('first') | join(','), d.items() | list | first | last
messages | map(attribute='role') | unique | list, messages[-1]['role'], messages[::-1][0].role, (messages | last).content
messages | selectattr('role', '==', 'user') | map(attribute='content') | first
[1, 2, 3][1:] + [4], [[1, 2], [3]][0][1], {'a': {'b': 'c'}}.a.b, 'abc'[1], ('x', 'y')[1], {'a': 1}['a']
(1, 2), (1,), (), 1, (1)
[1, 2,], {'a': 1,}, (1, 2,)
' %s ' % s, '%s%s' % (s, e)
'a' ~ 1 + 2, 1 + 2 ~ 3, 2 * '3' ~ 4
- 5 + 3, -f, +f, -(-5), 1 - -1, not -1
list.index(1), list.count(3), (1, 1).count(1), d.copy() == d, list.copy()
cycler('a', 'b').next(), joiner()()
loop is defined, caller is defined
1 if 2 in [2] and not 3 in [1] else 0
s if s is defined and s else 'none', (zz or {}).get('x', 1), (zz | default({})).x is defined
html | safe + '<b>', '<i>' + html | safe, 'a' ~ html | safe ~ '<b>', [html | safe], html | safe | upper, (html | safe)[0:2], html | safe | length
"\u00e9" == 'é', 'é' | length, '😀' | length, '😀' | upper, '\ud7ff' | length
'a\\b', "a\"b", 'a\'b', 'a\/b', '\x' if false else 1
"""

# Errors while rendering: the exception's text.
ERRORS = r"""
zz.x
zz['x']
zz.x.y
zz + 1
1 + zz
zz < 1
-zz
zz[1:]
zz | int
zz | float
zz | abs
d.zz.y
d['zz'].y
d.zz()
d['zz']['y']
list[9].x
list.zz.y
nil.x.y
nil[0].y
s.zz()
s.zz.y
f.zz.y
n.x.y
1()
'a'()
none()
{}()
[]['a'].b
d[1].y
d[[1]].y
1 + 'a'
'a' + 1
'a' + none
[1] + (1,)
[1] + 'a'
(1,) + [1]
none + 1
{} + {}
'a' - 1
'a' / 2
none * 2
[1] * 1.5
'a' * 'b'
{} % 1
1 // 0
1 % 0
1 / 0
1.5 / 0
1.5 // 0
1.5 % 0
0 ** -1
1 < 'a'
'a' < none
none < none
[] < {}
[1] < ['a']
{} >= {}
1 in 5
1 in none
1 in 'abc'
none in 'abc'
zz in 'abc'
[1] in {}
{[1]: 2}
{{}: 2}
-'a'
-none
-[]
n[0:1]
nil[::-1]
d[1:2]
s['a':]
s[::0]
range(200000)
range(0, 5, 0)
range('a')
range(1.5)
list | map('nope') | list
list | select('nope') | list
list | map | list
5 | list
none | list
5 | length
none | length
5 | first
none | last
none | join
5 | sort
[1, 'a'] | sort
[none, 1] | sort
[1, 'a'] | min
[1, 'a'] | sum
['a'] | sum
5 | items | list
s | items | list
none | items | list
s | dictsort
list | dictsort
d | dictsort(by='x')
'x' | round
none | round
'x' | abs
none | abs
1 | round(method='x')
range | tojson
zz | tojson
{(1,): 1} | tojson
(list | map('string')) | tojson
d.items() | tojson
list.append(1)
list.pop()
d.update({})
d.pop('a')
d.clear()
s.__class__.x
s.__class__()
list.append.x
list.__len__()
''.split('')
''.split(1)
s.replace(1, 2)
s.startswith(1)
s.startswith(['a'])
s.join([1])
s.join(1)
s.index('zz')
list.index(99)
s.strip(1)
s.find(1)
'%d' % 'a'
'%s %s' % 'a'
'%s' % ('a', 'b')
'%z' % 1
'%(a)s' % 1
'%(a)s' % {}
'%f' % 'a'
'%x' % 1.5
'%x' % 'a'
'%'  % 1
'{' .format()
'}'.format()
'{}'.format()
'{a}'.format()
'{:d}'.format('a')
'{:s}'.format(1)
'{:y}'.format(1)
'{} {0}'.format(1)
'{:5}'.format(none)
raise_exception('told you: ' ~ s)
raise_exception("tab\tand 'quotes' \"x\" é")
raise_exception()
raise_exception(1)
namespace(1)
namespace([1])
namespace(_x=1)
dict(1)
dict([1])
dict([(1, 2, 3)])
dict(1, 2)
s | trim(1)
s | default(1, 2, 3)
s | upper(1)
s | replace('a')
s | truncate(1)
5 | truncate
s | indent(none)
5 | indent
list | indent
words | truncate(3, leeway=0)
list | batch
list | slice(0) | list
5 is divisibleby 0
'a' is odd
none is even
1 is in 5
1 is lt 'a'
people | groupby('zz') | list
people | sort(attribute='zz')
people | map(attribute='name.x.y') | list
people | map(foo='x') | list
people | selectattr() | list
loop.index
cycler()
1 if zz.y else 2
(1 if no).x
(1 if no) + 1
strftime_now(1)
"""

# Whole templates with CONTEXT.
TEMPLATES = [
    "plain text", "", "\n", "a\n", "a\n\n", "a\r\nb\rc\r\n",
    "  {{ 1 }}  \n  {{ 2 }}\n", "{{ 1 }}\n", "{{1}}{{ 2}}{{3 }}",
    "  {% if yes %}\n  x\n  {% endif %}\n  y", "a {% if yes %} b {% endif %} c", "{% if yes %}\n\n  x{% endif %}",
    "  \t{%- if yes -%}  \n\n x \n {%- endif %}\n end", "a  {{- 1 -}}  b", "a\n  {%- set x = 1 %}\n  b {{ x }}",
    "a\n  {%+ if yes %}b{% endif %}", "{% if yes +%}\n b{% endif %}", "{%- if yes -%} x {%- endif -%}", "a {{+ 1 }}",
    "x\n{# comment #}\ny", "x {# comment\n lines #} y", "x\n  {#- strip -#}  \n y", "  {# c #}\n  z", "{# a #}{# b #}x", "{#+ c +#}\nx",
    "{% raw %}{{ not }} {% if %}{% endraw %}", "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\n  b", "{%- raw -%}  x  {%- endraw -%}  y", "{% raw %}{# c #}{% endraw %}\nz",
    "{{ '}}' }}{{ \"{%\" }}{{ '{{' }}", "{{ {'a': {'b': 1}}['a']['b'] }}", "{{ {'a':{}} }}", "{ { } } {% set x = 1 %}{ {{ x }} }",
    "{% set x = 5 %}{{ x }}{% set x = x + 1 %}{{ x }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set (a, (b, c)) = (1, [2, 3]) %}{{ a }}{{ b }}{{ c }}", "{% set a = 1, 2 %}{{ a }}",
    "{% set x %}block {{ n }}{% endset %}[{{ x }}]", "{% set x | upper %}block{% endset %}{{ x }}", "{% set x | replace('a', 'b') | upper %}aaa{% endset %}{{ x }}{{ x is string }}",
    "{% set x = 1 %}{% if yes %}{% set x = 2 %}{% endif %}{{ x }}", "{% if yes %}{% set y = 2 %}{% endif %}{{ y }}", "{% if no %}{% set y = 2 %}{% endif %}[{{ y }}]{{ y is defined }}",
    "{% set x = 1 %}{% for i in list %}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% for i in list %}{% set q9 = i %}{% endfor %}{{ q9 is defined }}", "{% for i in list %}{{ x is defined }}{% set x = i %}{{ x }} {% endfor %}",
    "{% for i in list %}{% if loop.first %}{% set x = i %}{% endif %}[{{ x }}]{% endfor %}", "{% set n = n + 1 %}{{ n }}", "{% if no %}{% set n = 9 %}{% endif %}{{ n }}", "{% for i in list %}{% if i == 1 %}{% set n = 0 %}{% endif %}{{ n }}{% endfor %}{{ n }}",
    "{% set ns = namespace(x=1, y='a') %}{% for i in list %}{% set ns.x = ns.x + i %}{% endfor %}{{ ns.x }}{{ ns.y }}{{ ns.z is defined }}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a }}{{ ns.b }}{{ ns['a'] }}", "{% set ns = namespace() %}{% set ns.a, ns.b = 1, 2 %}{{ ns.a + ns.b }}",
    "{% set ns = namespace(l=[]) %}{% for i in list %}{% set ns.l = ns.l + [i * 2] %}{% endfor %}{{ ns.l }}", "{% set ns = namespace(a=1) %}{% set ns.b %}x{{ ns.a }}{% endset %}{{ ns.b }}",
    "{% set ns = namespace(a=1) %}{% macro inc() %}{% set ns.a = ns.a + 1 %}{% endmacro %}{{ inc() }}{{ inc() }}{{ ns.a }}",
    "{% for i in list %}{{ i }}{% else %}none{% endfor %}", "{% for i in empty %}{{ i }}{% else %}none{% endfor %}", "{% for i in zz %}{{ i }}{% else %}undef{% endfor %}", "{% for i in list if i > 1 %}{{ i }}{% else %}none{% endfor %}", "{% for i in list if i > 5 %}{{ i }}{% else %}none{% endfor %}",
    "{% for i in list %}{{ loop.index }}/{{ loop.length }} {{ loop.index0 }} {{ loop.revindex }} {{ loop.revindex0 }} {{ loop.first }} {{ loop.last }} {{ loop.depth }} {{ loop.depth0 }}\n{% endfor %}",
    "{% for i in list if i != 1 %}{{ loop.index }}/{{ loop.length }} {{ loop.revindex }} {{ loop.last }} {{ loop.previtem }} {{ loop.nextitem }};{% endfor %}", "{% for i in list %}{{ loop.previtem }}<{{ i }}>{{ loop.nextitem }} {% endfor %}", "{% for i in list %}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }}{% endfor %}",
    "{% for i in list %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2, 2, 1] %}{{ loop.changed(i) }} {% endfor %}", "{% for m in messages %}{{ m.role }}:{{ m.content }}{% if not loop.last %}|{% endif %}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for k, v in d | items %}{{ k }}{% endfor %}", "{% for k, v in d | dictsort %}{{ k }}{% endfor %}", "{% for c in u %}[{{ c }}]{% endfor %}", "{% for (a, b), c in [((1, 2), 3)] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for i in range(3) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}|{% endfor %}", "{% for i in range(2) %}{% set outer = loop %}{% for j in range(2) %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for i in range(9) %}{% if i == 2 %}{% continue %}{% endif %}{% if i == 5 %}{% break %}{% endif %}{{ i }}{% endfor %}", "{% for i in list %}{% continue %}{% else %}else{% endfor %}", "{% for i in list %}{% break %}{% else %}else{% endfor %}", "{% for i in list %}{% if loop.index == 2 %}{% break %}{% endif %}{{ i }}{% else %}else{% endfor %}",
    "{% for i in range(3) %}{% for j in range(3) %}{% if j == 1 %}{% break %}{% endif %}{{ i }}{{ j }} {% endfor %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for i in list if not ns.stop %}{{ i }}{% if i == 1 %}{% set ns.stop = true %}{% endif %}{% endfor %}", "{% for i in (1, 2) + (3,) %}{{ i }}{% endfor %}", "{% for i in 1, 2, 3 %}{{ i }}{% endfor %}", "{% for i in list | sort | reverse %}{{ i }}{% endfor %}", "{% for x in [[1, 2], [3]] recursive %}[{% if x is iterable %}{{ loop(x) }}{% else %}{{ x }}@{{ loop.depth }}{% endif %}]{% endfor %}",
    "{% for n in [{'v': 1, 'c': [{'v': 2, 'c': []}]}] recursive %}<{{ n.v }}{{ loop(n.c) if n.c }}>{% endfor %}",
    "{% if no %}a{% elif zz %}b{% elif yes %}c{% else %}d{% endif %}", "{% if no %}a{% elif no %}b{% else %}d{% endif %}", "{% if s and list and not e %}ok{% endif %}", "{% if 1, %}tuple{% endif %}", "{% if messages[0].role == 'user' and messages|length > 1 %}A{% endif %}",
    "{% macro m(a, b=2, c='x') %}{{ a }}{{ b }}{{ c }};{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(1, c='z') }}{{ m(b=5, a=6) }}{{ m() }}", "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(1, 2) }}", "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}{{ m() }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}", "{% macro m() %}  padded  {% endmacro %}[{{ m() | trim }}][{{ m() }}]", "{% set g = 1 %}{% macro m() %}{{ g }}{% endmacro %}{% set g = 2 %}{{ m() }}", "{% macro m() %}{% set g = 5 %}{{ g }}{% endmacro %}{{ m() }}{{ g is defined }}", "{% macro m() %}{{ late }}{% endmacro %}{% set late = 'L' %}{{ m() }}",
    "{% macro m(n) %}{{ n }}{% endmacro %}{{ m(3) }}{{ n }}", "{% macro m() %}{{ caller() }}!{% endmacro %}{% call m() %}body {{ s }}{% endcall %}", "{% macro m() %}{% for i in list %}{{ caller(i, b=2) }}{% endfor %}{% endmacro %}{% call(a, b=1) m() %}<{{ a }}{{ b }}>{% endcall %}", "{% macro m(x) %}[{{ x }}{{ caller() if caller }}]{% endmacro %}{{ m(1) }}{% call m(2) %}c{% endcall %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m.name }}{{ m.arguments }}{{ m.catch_kwargs }}{{ m.catch_varargs }}{{ m.caller }}", "{% macro a() %}A{% endmacro %}{% macro b() %}B{{ a() }}{% endmacro %}{{ b() }}", "{% macro m() %}x{% endmacro %}{{ m() + 'y' }}{{ m() is string }}{{ m() ~ 1 }}{{ m | string | length > 0 }}", "{% if yes %}{% macro m() %}in if{% endmacro %}{% endif %}{{ m() }}",
    "{% for i in list %}{% macro m() %}{{ i }}{% endmacro %}{{ m() }}{% endfor %}", "{% macro outer() %}{% macro inner(x) %}<{{ x }}>{% endmacro %}{{ inner(1) }}{% endmacro %}{{ outer() }}", "{% macro m(a, b) %}{{ a }}|{{ b }}{% endmacro %}{{ m(*[1, 2]) }}{{ m(**{'a': 1, 'b': 2}) }}{{ m(1, *[2]) }}",
    "{% with a = 1, b = 2 %}{{ a }}{{ b }}{% endwith %}{{ a is defined }}", "{% with %}{% set x = 1 %}{{ x }}{% endwith %}{{ x is defined }}", "{% set a = 1 %}{% with a = 2, b = a %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with a, b = (1, 2) %}{{ a }}{{ b }}{% endwith %}",
    "{% filter upper %}abc {{ s }}{% endfilter %}", "{% filter trim | replace('a', 'b') %}  aaa  {% endfilter %}|", "{% filter indent(2) %}a\nb{% endfilter %}", "{% filter upper %}{% set zzz = 'x' %}{{ zzz }}{% endfilter %}{{ zzz is defined }}",
    "{% generation %}gen {{ s }}{% endgeneration %}", "{% for m in messages %}{%- generation -%} {{ m.content }} {%- endgeneration -%}{% endfor %}", "{% generation %}{% set inner = 1 %}{{ inner }}{% endgeneration %}{{ inner is defined }}", "{% set x = 1 %}{% generation %}{% set x = 2 %}{{ x }}{% endgeneration %}{{ x }}",
    "{% print 1 %}{% print s, 2 %}", "{% set it = list | map('string') %}{{ it | list }}{{ it | list }}", "{% set it = d | items %}{% for k, v in it %}{{ k }}{% endfor %}{% for k, v in it %}{{ k }}{% endfor %}|", "{% set c = cycler(1, 2) %}{{ c.next() }}{{ c.current }}{{ c.next() }}{{ c.next() }}{{ c.reset() }}{{ c.current }}", "{% set j = joiner(' | ') %}{% for i in list %}{{ j() }}{{ i }}{% endfor %}",
    "{% set x = [] %}{% set x = x + [1] %}{{ x }}", "{% set content = '' %}{% for m in messages %}{% set content = content ~ m.content %}{% endfor %}[{{ content }}]", "{%- for m in messages -%}\n{{ m.role }}\n{%- endfor -%}\n", "{% for m in messages %}\n  {{ m.role }}\n{% endfor %}\n",
    "{% if yes: %}colon{% endif %}", "{% for i in list: %}{{ i }}{% endfor %}", "{{ s\n  | upper\n  | replace('O',\n 'x') }}", "{{ [\n1,\n2\n] }}\n{% set y = {\n 'a': 1\n} %}{{ y }}", "{{ 1 if\nyes else\n2 }}", "é{{ u }}ü{# ñ #}", "{{ d['it' ~ 'ems'] }}{{ d.items | string | length > 1 }}",
    "{% set _ = 1 %}{{ _ }}{% set _x1 = 2 %}{{ _x1 }}{% set été = 3 %}{{ été }}", "{% set loopy = 1 %}{% for loopy in list %}{{ loopy }}{% endfor %}{{ loopy }}", "{% for i in list %}{% set i = i * 10 %}{{ i }} {% endfor %}", "{% for s in words %}{{ s }}{% endfor %}{{ s }}", "{% macro s() %}macro{% endmacro %}{{ s() }}",
    "{% set a = b9 %}{{ a is undefined }}{% set b9 = 1 %}", "{{ y }}{% set y = 1 %}{{ y }}", "{% set y = y | default('d') %}{{ y }}", "{% if no %}{% set s = 'changed' %}{% else %}{{ s }}{% endif %}{{ s }}", "{% if yes %}{% set zq = 1 %}{% else %}{% set zq = 2 %}{% endif %}{{ zq }}", "{% set x = 1 %}{% if no %}{% set x = 2 %}{% elif yes %}{{ x }}{% set x = 3 %}{% endif %}{{ x }}",
    "{% for i in [1] %}{% if yes %}{% set a1 = 1 %}{% endif %}{% for j in [1] %}{{ a1 }}{% set a1 = 2 %}{{ a1 }}{% endfor %}{{ a1 }}{% endfor %}{{ a1 is defined }}", "{% set x = 0 %}{% for i in [1, 2] %}{% for j in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }};{% endfor %}{{ x }}",
    "{% macro m(x) %}{% for i in range(x) %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}{% endmacro %}{{ m(2) }}", "{% call(x) (caller or none) %}{% endcall %}" if False else "{{ range(3) | map('string') | join }}",
    "{% set messages = messages[1:] %}{{ messages | length }}{% for m in messages %}{{ m.role }}{% endfor %}", "{% for message in messages %}{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles must alternate') }}{% endif %}{{ message['role'] }}{% endfor %}", "{% for message in messages %}{% if message['role'] == 'user' %}{{ raise_exception('No ' ~ message.role ~ ' at ' ~ loop.index0) }}{% endif %}{% endfor %}",
    "{{ '%02d' | format(5) }} {{ \"%s\" % s }}", "{{ 'a' 'b' ~ 'c' }}{{ \"x\"\n'y' }}", "{{ strftime_now('%%') }}{{ strftime_now('%Y') | length }}{{ strftime_now('%d %b %Y') | length }}", "{{ (s ~ '\\n') | tojson }}", "{% set x = {'a': [1, {'b': none}]} %}{{ x | tojson }}{{ x }}", "{{ [1, 2] | tojson ~ 'x' }}", "{{ html ~ (html | e) }}", "{% set y = (s | trim) if s else '' %}{{ y }}",
]

# Templates that do not compile: the line, and the message where ours is the same.
BROKEN = [
    "{{ s | nope }}", "line\n\n{{ s | upper | nope(1) }}", "{{ s is nope }}", "a\n{% nope %}", "{% if s %}", "{% for x in list %}\n\n", "{% endif %}", "{% if s %}{% endfor %}",
    "{{ }}", "{{ s", "{{ s }", "{% if %}{% endif %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1) }}", "{{ [1, 2 }}", "{{ {'a' 1} }}", "{{ 'abc }}", "{{ a b }}", "{% set 1 = 2 %}", "{% set a.b.c = 1 %}", "{% set 'x' = 1 %}", "{% for x of list %}{% endfor %}", "{% macro %}{% endmacro %}", "{% macro m(a=1, b) %}{% endmacro %}",
    "{# open", "{% raw %}", "{{ s ? 1 }}", "\n\n{{ $x }}", "{% call s %}{% endcall %}", "{{ f(a=1, 2) }}", "{{ f(**a, *b) }}", "{{ s is string is string }}", "{{ s. }}", "{{ s.'x' }}", "{{ 1 if }}", "{% set %}", "{% set x %}", "{% with a %}{% endwith %}", "{% filter %}{% endfilter %}", "{{ not }}", "{{ 1 2 }}", "{% else %}", "{{ '\\x1' }}", "{{ '\\u12' }}", "{% for loop in list %}{{ loop.index }}{% endfor %}", "{{ a[1 }}", "{{ | upper }}", "{{ x | }}", "{{ 1 == }}", "{% if a = 1 %}{% endif %}", "{{ a = 1 }}", "{{ 1if }}", "{{ 5x }}",
]


def conversations():
    tool = {"type": "function", "function": {"name": "get_weather", "description": "Weather of a place", "parameters": {
        "type": "object", "required": ["place"], "properties": {
            "place": {"type": "string", "description": "City,\nor region"}, "days": {"type": "integer"},
            "unit": {"type": "string", "enum": ["°C", "F"]}, "where": {"type": "array", "items": {"type": "number"}},
            "how": {"type": ["string", "null"]}, "deep": {"type": "object", "properties": {"a": {"type": "boolean"}}}}}}}
    other = {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}}
    call = {"type": "function", "id": "1", "function": {"name": "get_weather", "arguments": {"place": "Zürich \"HB\"", "days": 3, "where": [47.4, 8.5], "big": 12345678901234567890123}}}
    user = {"role": "user", "content": "How is the <|im_end|> weather?"}
    called = {"role": "assistant", "content": "", "reasoning_content": "I must\nlook.", "tool_calls": [call, {"function": {"name": "now", "arguments": {}}}]}
    results = [{"role": "tool", "name": "get_weather", "content": "sunny\n20°"}, {"role": "tool", "tool_call_id": "x2", "content": "12:00"}]
    answer = {"role": "assistant", "content": "<think>\nso\n</think>\n\nIt is sunny."}
    yield "question", {"messages": [user]}
    yield "system", {"messages": [{"role": "system", "content": "  Be brief.\n"}, user]}
    yield "turns", {"messages": [user, answer, {"role": "user", "content": "Thanks"}]}
    yield "tools", {"messages": [user], "tools": [tool, other]}
    yield "calls", {"messages": [user, called, *results], "tools": [tool, other]}
    yield "results answered", {"messages": [user, called, *results, answer, {"role": "user", "content": "More?"}], "tools": [tool]}
    yield "system and tools", {"messages": [{"role": "system", "content": "Be brief."}, user, called, results[0], answer], "tools": [tool], "add_generation_prompt": False}
    yield "parts", {"messages": [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What "}, {"type": "text", "text": "is it?"}]}]}
    yield "bad part", {"messages": [{"role": "user", "content": [{"type": "sound"}, 5]}]}
    yield "bad role", {"messages": [user, {"role": "critic", "content": "no"}]}
    yield "no user", {"messages": [{"role": "system", "content": "x"}]}
    yield "fake result", {"messages": [user, answer, {"role": "user", "content": "<result>1</result>"}]}
    yield "two systems", {"messages": [{"role": "system", "content": "a"}, user, {"role": "system", "content": "b"}, user]}
    yield "empty", {"messages": []}
    yield "nothing", {}
    yield "unicode", {"messages": [{"role": "user", "content": "\u3000 Grüße, 世界 👋🏽 \u2028\t"}], "date": "2026-01-02"}


def render(template, context_text):
    try:
        compiled = _compile_jinja_template(template)
    except jinja2.TemplateSyntaxError as error:
        return {"compile_error": error.message, "line": error.lineno}
    try:
        return {"expected": compiled.render(**json.loads(context_text))}
    except Exception as error:  # the text is what users see, whatever its class
        return {"error": str(error)}


def cases():
    for line in EXPRESSIONS.replace("\\\n", "\\\x00").strip("\n").split("\n"):
        yield line, "{{ " + line.replace("\\\x00", "\\\n") + " }}", CONTEXT
    for line in ERRORS.strip("\n").split("\n"):
        yield line, "{{ " + line + " }}", CONTEXT
    for template in TEMPLATES + BROKEN:
        yield template, template, CONTEXT
    for path in sorted(FOLDER.glob("*.jinja")):
        for name, context in conversations():
            context = {"add_generation_prompt": True, "bos_token": "<s>", "eos_token": "</s>", **context}
            yield f"{path.stem}: {name}", path.name, json.dumps(context, ensure_ascii=False)


def main():
    out = []
    for name, template, context in cases():
        case = {"name": name}
        if template.endswith(".jinja"):
            case["file"] = template
            template = (FOLDER / template).read_text()
        else:
            case["template"] = template
        if context is not CONTEXT:
            case["context"] = context
        out.append({**case, **render(template, context)})
    text = json.dumps({"context": CONTEXT, "cases": out}, ensure_ascii=False, indent=1)
    (FOLDER / "cases.json").write_text(text + "\n")
    kinds = {kind: sum(kind in case for case in out) for kind in ("expected", "error", "compile_error")}
    print(f"{len(out)} cases: {kinds}")


if __name__ == "__main__":
    main()
