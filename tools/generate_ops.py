#!/usr/bin/env python3
"""Writes what follows from the ops' signature lines: declarations, call glue, registration, docs.

Reads src/ops/defs/*.{h,cpp} (primitives; a header holds a functor too) and src/ops/composite/*.cpp.
Each file defines the op of its name and contains one `.signature = "name(Type arg, ...) -> Type"`.
A composite may overload another op: "max.all(...)" in max_all.cpp is a function called max.

Types      Tensor, Tensor?, Tensor[], float, float?, int, int?, bool, int[], int[N], dtype, dtype?,
           str (defaults in single quotes); composites also Scalar and Generator?, and bool results
Methods    an op whose first argument is called `self` is a method of Tensor too; if it has a functor
           whose result keeps the dtype, there is an in-place variant with a trailing underscore.
Numbers    elementwise ops of several tensors accept a number in place of one operand, also by name.
Memory     elementwise ops have an overload for an operand that the caller gives up (Tensor&&),
           composites where their file defines one for the first argument.
"""

import argparse
import pathlib
import re
import sys

ATTR_TYPES = {  # signature type: (field type, AttrKind)
    'float': ('double', 'floating'),
    'int': ('std::int64_t', 'integer'),
    'bool': ('bool', 'boolean'),
    'int[]': ('Dims', 'dims'),
    'dtype': ('DType', 'dtype'),
    'str': ('ShortString', 'string'),
    'float?': ('std::optional<double>', 'optional_floating'),
    'int?': ('std::optional<std::int64_t>', 'optional_integer'),
    'dtype?': ('std::optional<DType>', 'optional_dtype'),
}
PARAMETER_TYPES = {
    'Tensor': 'const Tensor&', 'Tensor?': 'const Tensor&', 'Tensor[]': 'const std::vector<Tensor>&',
    'float': 'double', 'int': 'std::int64_t', 'bool': 'bool', 'int[]': 'IntList',
    'dtype': 'DType', 'str': 'std::string_view', 'float?': 'std::optional<double>',
    'int?': 'std::optional<std::int64_t>', 'dtype?': 'std::optional<DType>',
    'Scalar': 'Scalar', 'Generator?': 'Generator*',
}
HEADER = '// Generated from the ops\' signature lines by tools/generate_ops.py.\n'


class Parameter:
    def __init__(self, text, where):
        match = re.fullmatch(r'([A-Za-z]+(?:\[\d*\])?\??)\s+(\w+)(?:\s*=\s*(.+))?', text.strip())
        if not match:
            sys.exit(f'{where}: cannot read the argument "{text}"')
        self.type, self.name, self.default = match.groups()
        fixed = re.fullmatch(r'int\[(\d+)\]', self.type)
        self.length = int(fixed.group(1)) if fixed else None
        if fixed:
            self.type = 'int[]'
        if self.type not in PARAMETER_TYPES:
            sys.exit(f'{where}: unknown type {self.type} of argument {self.name}')

    @property
    def is_tensor(self):
        return self.type.startswith('Tensor')

    def cpp_default(self):
        value = self.default
        if value is None:
            return ''
        if value == 'None':
            return ' = ' + {'Tensor?': '{}', 'Generator?': 'nullptr'}.get(self.type, 'std::nullopt')
        if value in ('True', 'False'):
            return ' = ' + value.lower()
        if self.type == 'int[]':
            return ' = {' + value.strip('[]') + '}'
        if self.type == 'dtype':
            return ' = DType::' + value
        if self.type == 'str':
            return f' = "{value[1:-1]}"'
        return ' = ' + value

    def declare(self, with_default=True, kind=None):
        return f'{kind or PARAMETER_TYPES[self.type]} {self.name}' + (
            self.cpp_default() if with_default else '')

    def to_attr(self, op):
        if self.type == 'int[]' and self.length:
            return f'expand_list({self.name}, {self.length}, "{op}", "{self.name}")'
        return f'{{{self.name}}}' if self.type in ('int[]', 'str') else self.name


class Op:
    def __init__(self, path):
        text = path.read_text()
        found = re.findall(r'\.signature\s*=\s*((?:"[^"]*"\s*)+)', text)
        if len(found) != 1:
            sys.exit(f'{path}: expected one .signature, found {len(found)}')
        self.signature = ''.join(re.findall(r'"([^"]*)"', found[0]))
        match = re.fullmatch(r'(\w+)(?:\.(\w+))?\((.*)\)\s*->\s*(.+)', self.signature)
        if not match:
            sys.exit(f'{path}: cannot read the signature "{self.signature}"')
        self.function, overload, arguments, self.result = match.groups()
        self.name = f'{self.function}_{overload}' if overload else self.function
        if self.name != path.stem:
            sys.exit(f'{path}: defines {self.name}; the file must be called {self.name}')
        depth, start, parts = 0, 0, []
        for i, c in enumerate(arguments + ','):
            depth += c in '[(' and 1 or c in '])' and -1 or 0
            if c == ',' and depth == 0:
                parts.append(arguments[start:i])
                start = i + 1
        self.parameters = [Parameter(p, path) for p in parts if p.strip()]
        self.tensors = [p for p in self.parameters if p.is_tensor]
        self.attrs = [p for p in self.parameters if not p.is_tensor]
        self.has_lists = any(p.type == 'Tensor[]' for p in self.tensors)
        self.composite = path.parent.name == 'composite'
        if overload and not self.composite:
            sys.exit(f'{path}: only composites overload another op')
        self.functor = f'struct {self.name}_functor' in text
        self.reduction = f'struct {self.name}_reduction' in text
        self.takes_over = bool(re.search(rf'^Tensor {self.function}\(Tensor&& ', text, re.MULTILINE))
        self.predicate = bool(re.search(rf'{self.name}_functor\s*:\s*PredicateFunctor', text))
        masks = re.search(r'mask_inputs\s*=\s*(\d+)', text)
        self.masks = int(masks.group(1)) if masks else 0
        self.path = path
        doc = re.search(r'\.doc\s*=\s*((?:"(?:[^"\\]|\\.)*"\s*)+)', text)
        self.doc = ''.join(re.findall(r'"((?:[^"\\]|\\.)*)"', doc.group(1))) if doc else ''
        if not self.composite:
            for p in self.attrs:
                if p.type not in ATTR_TYPES:
                    sys.exit(f'{path}: primitives cannot have an attribute of type {p.type}')

    @property
    def is_method(self):
        return bool(self.parameters) and self.parameters[0].name == 'self'

    @property
    def result_type(self):
        if self.result == '()':
            return 'void'
        if self.result == 'bool':
            return 'bool'
        if self.result == 'Tensor[]':
            return 'std::vector<Tensor>'
        if self.result.startswith('('):
            return 'std::tuple<' + ', '.join(['Tensor'] * (self.result.count(',') + 1)) + '>'
        return 'Tensor'

    def number_overloads(self):
        """Positions of tensor parameters that a number may replace, one overload each."""
        if not self.functor or len(self.tensors) - self.masks < 2:
            return []
        return [i for i in range(self.masks, len(self.tensors))]

    @property
    def reuses_memory(self):
        """True if the result may take over the memory of an operand that the caller gives up."""
        return self.takes_over or (self.functor and not self.predicate and not self.masks)

    @property
    def has_in_place(self):
        """True if an in-place variant is generated."""
        return self.functor and self.reuses_memory and self.is_method

    @property
    def qualifiers(self):
        """Of the methods, and what each hands to the free function."""
        if self.reuses_memory:
            return {' const&': '*this', ' &&': 'std::move(*this)'}
        return {' const': '*this'}

    def declaration(self, with_default=True, replace=None, moved=None):
        """`replace`: position of a tensor that is a number; `moved`: of one that is given up."""
        parts = []
        for p in self.parameters:
            kind = None
            if replace is not None and p is self.tensors[replace]:
                kind = 'Scalar'
            elif moved is not None and p is self.tensors[moved]:
                kind = 'Tensor&&'
            parts.append(p.declare(with_default, kind))
        return f'{self.function}({", ".join(parts)})'

    def method(self, suffix='', with_default=True, scope='', replace=None, name_suffix=''):
        parts = [p.declare(with_default, 'Scalar' if replace is not None and
                           p is self.tensors[replace] else None) for p in self.parameters[1:]]
        return f'{scope}{self.function}{name_suffix}({", ".join(parts)}){suffix}'

    def attrs_value(self):
        if not self.attrs:
            return '', 'nullptr'
        values = ', '.join(p.to_attr(self.name) for p in self.attrs)
        return f'  const ops::{self.name}_attrs attrs{{{values}}};\n', '&attrs'

    def partner_of(self, replaced):
        others = [t for i, t in enumerate(self.tensors) if i >= self.masks and i != replaced]
        return others[0].name


def ops_header(ops):
    lines = [HEADER, '// The ops as free functions.\n#pragma once\n',
             '#include <optional>\n#include <string_view>\n#include <tuple>\n#include <vector>\n',
             '#include <facula/tensor.h>\n', 'namespace facula {\n']
    for op in ops:
        lines.append(f'/// {op.doc}')
        lines.append(f'FACULA_API {op.result_type} {op.declaration()};')
        if op.reuses_memory:
            lines.append(f'FACULA_API Tensor {op.declaration(moved=0)};')
        for i in op.number_overloads():
            lines.append(f'FACULA_API Tensor {op.declaration(replace=i)};')
            if op.reuses_memory:
                moved = op.declaration(replace=i, moved=int(i == 0))
                lines.append(f'FACULA_API Tensor {moved};')
        lines.append('')
    lines.append('}  // namespace facula\n\n#include <facula/operators.h>')
    return '\n'.join(lines) + '\n'


def methods_header(ops):
    lines = [HEADER]
    for op in ops:
        if not op.is_method:
            continue
        lines += [f'{op.result_type} {op.method(q)};' for q in op.qualifiers]
        if op.functor:
            if op.reuses_memory:
                lines.append(f'const Tensor& {op.method(" const", name_suffix="_")};')
            for i in op.number_overloads():
                if i == 0:
                    continue
                lines += [f'Tensor {op.method(q, replace=i)};' for q in op.qualifiers]
                if op.reuses_memory:
                    lines.append(
                        f'const Tensor& {op.method(" const", replace=i, name_suffix="_")};')
    return '\n'.join(lines) + '\n'


def attrs_header(op):
    lines = [HEADER + '#pragma once\n', '#include <cstddef>\n', '#include "ops/schema/attrs.h"\n',
             'namespace facula::ops {\n', f'struct {op.name}_attrs {{',
             f'  static constexpr int tensor_arguments = {len(op.tensors)};']
    for p in op.attrs:
        lines.append(f'  {ATTR_TYPES[p.type][0]} {p.name};')
    lines.append('};\n')
    if op.attrs:
        lines.append(f'inline constexpr AttrField {op.name}_fields[] = {{')
        for p in op.attrs:
            lines.append(f'    {{"{p.name}", AttrKind::{ATTR_TYPES[p.type][1]}, '
                         f'offsetof({op.name}_attrs, {p.name})}},')
        lines.append('};\n')
    lines.append('}  // namespace facula::ops')
    return '\n'.join(lines) + '\n'


def functor_body(op, replace=None, moved=None):
    """The free function with tensor `replace` a number and tensor `moved` given up."""
    setup, attrs = op.attrs_value()
    if replace is not None:
        setup += (f'  const Tensor number = runtime::operand_number(OpId::{op.name}, {replace}, '
                  f'{op.tensors[replace].name}, {op.partner_of(replace)});\n')
    inputs = ', '.join('&number' if i == replace else '&' + t.name
                       for i, t in enumerate(op.tensors))
    call = (f'elementwise(OpId::{op.name}, ' if moved is None else
            f'elementwise_reusing(OpId::{op.name}, {op.tensors[moved].name}, ')
    return (f'Tensor {op.declaration(False, replace, moved)} {{\n'
            f'{setup}  return runtime::{call}{{{inputs}}}, {attrs});\n}}\n')


def functor_methods(op):
    """The methods that call the free functions, and the in-place variants."""
    setup, attrs = op.attrs_value()
    out = []
    for i in [None] + [i for i in op.number_overloads() if i > 0]:
        rest = ''.join(', ' + p.name for p in op.parameters[1:])
        for qualifier, self in op.qualifiers.items():
            out.append(f'Tensor {op.method(qualifier, False, "Tensor::", i)} {{\n'
                       f'  return facula::{op.name}({self}{rest});\n}}\n')
        if not op.has_in_place:
            continue
        body = setup
        if i is not None:
            body += (f'  const Tensor number = runtime::operand_number(OpId::{op.name}, {i}, '
                     f'{op.tensors[i].name}, *this);\n')
        inputs = ', '.join(['this'] + ['&number' if t is op.tensors[i or 0] else '&' + t.name
                                       for t in op.tensors[1:]])
        out.append(f'const Tensor& {op.method(" const", False, "Tensor::", i, "_")} {{\n'
                   f'{body}  runtime::elementwise_in_place(OpId::{op.name}, {{{inputs}}}, {attrs});\n'
                   f'  return *this;\n}}\n')
    return out


def functor_bodies(op):
    out = [functor_body(op)]
    if op.reuses_memory:
        out.append(functor_body(op, moved=0))
    for i in op.number_overloads():
        out.append(functor_body(op, replace=i))
        if op.reuses_memory:
            out.append(functor_body(op, replace=i, moved=int(i == 0)))
    return out + (functor_methods(op) if op.is_method else [])


def primitive_bodies(op):
    setup, attrs = op.attrs_value()
    body = setup + '  Outputs outputs;\n'
    if op.has_lists:
        # On the stack for an optimizer step of up to 100 parameters: what malloc() gives of such
        # sizes wanders over the heap, to a new page after many steps.
        lists = [t.name + '.size()' for t in op.tensors if t.type == 'Tensor[]']
        single = len(op.tensors) - len(lists)
        body += '  SmallVector<const Tensor*, 512> inputs;\n'
        body += f'  inputs.reserve({" + ".join(lists + [str(single)] * (single > 0))});\n'
        sizes = []
        for t in op.tensors:
            if t.type == 'Tensor[]':
                body += f'  for (const Tensor& entry : {t.name}) inputs.push_back(&entry);\n'
                sizes.append(f'list_size({t.name}, "{op.name}")')
            else:
                body += f'  inputs.push_back(&{t.name});\n'
                sizes.append('1')
        body += f'  const std::uint16_t segments[] = {{{", ".join(sizes)}}};\n'
        body += (f'  runtime::dispatch(Call{{op(OpId::{op.name}), inputs.data(), '
                 f'static_cast<std::uint32_t>(inputs.size()), {attrs}, segments}}, outputs);\n')
    else:
        inputs = ', '.join('&' + t.name for t in op.tensors)
        body += f'  runtime::dispatch(OpId::{op.name}, {{{inputs}}}, {attrs}, outputs);\n'
    if op.result == 'Tensor':
        body += '  return std::move(outputs[0]);\n'
    elif op.result == 'Tensor[]':
        body += ('  return {std::make_move_iterator(outputs.begin()), '
                 'std::make_move_iterator(outputs.end())};\n')
    elif op.result != '()':
        count = op.result.count(',') + 1
        body += '  return {' + ', '.join(f'std::move(outputs[{i}])' for i in range(count)) + '};\n'
    return [f'{op.result_type} {op.declaration(False)} {{\n{body}}}\n'] + method_forward(op)


def method_forward(op):
    if not op.is_method:
        return []
    rest = ''.join(', ' + p.name for p in op.parameters[1:])
    return [f'{op.result_type} {op.method(qualifier, False, "Tensor::")} {{\n'
            f'  return facula::{op.function}({self}{rest});\n}}\n'
            for qualifier, self in op.qualifiers.items()]


def functions_source(ops):
    lines = [HEADER]
    lines += [f'#include "ops/attrs/{op.name}.h"' for op in ops if not op.composite]
    lines += ['#include "ops/schema/glue.h"', '#include "runtime/dispatch.h"\n',
              'namespace facula {\n']
    for op in ops:
        if op.composite:
            lines += method_forward(op)
        else:
            lines += functor_bodies(op) if op.functor else primitive_bodies(op)
    lines.append('}  // namespace facula')
    return '\n'.join(lines) + '\n'


def registration_source(ops):
    primitives = [op for op in ops if not op.composite]
    lines = [HEADER]
    lines += [f'#include "ops/attrs/{op.name}.h"' for op in primitives]
    lines += ['#include "ops/dynamic.h"', '#include "runtime/op_registry.h"\n',
              'namespace facula::ops {\n']
    lines += [f'OpDef define_{op.name}();' for op in primitives]
    lines += [f'CompositeDef define_{op.name}();' for op in ops if op.composite]
    lines.append('\nconst Registration kRegistrations[] = {')
    for op in primitives:
        schema = (f'{{{op.name}_fields, {len(op.attrs)}, sizeof({op.name}_attrs)}}'
                  if op.attrs else '{}')
        lines.append(f'    {{OpId::{op.name}, "{op.name}", define_{op.name}, {schema}, '
                     f'{len(op.tensors)}, {str(op.has_lists).lower()}}},')
    lines.append('};\n\nnamespace {\n')
    getters = {'Tensor': 'tensor', 'Tensor?': 'optional_tensor', 'Tensor[]': 'tensors',
               'float': 'floating', 'int': 'integer', 'bool': 'boolean', 'int[]': 'integers',
               'dtype': 'dtype', 'str': 'string', 'float?': 'optional_floating',
               'int?': 'optional_integer', 'dtype?': 'optional_dtype', 'Scalar': 'scalar',
               'Generator?': 'generator'}
    for op in ops:
        def call_with(number=None, in_place=False):
            """The call, with a number for one of the tensors."""
            arguments = [f'a.{"scalar" if p is number else getters[p.type]}({i})'
                         for i, p in enumerate(op.parameters)]
            if in_place:
                return f'{arguments[0]}.{op.name}_({", ".join(arguments[1:])})'
            return f'facula::{op.function}({", ".join(arguments)})'

        unused = '' if op.parameters else '[[maybe_unused]] '
        lines.append(f'std::vector<Tensor> call_{op.name}({unused}const DynamicArguments& a) {{')
        for number in (op.tensors[i] for i in op.number_overloads()):
            lines.append(f'  if (a.is_number({op.parameters.index(number)})) '
                         f'return {{{call_with(number)}}};')
        call = call_with()
        if op.result == '()':
            lines.append(f'  {call};\n  return {{}};')
        elif op.result == 'Tensor':
            lines.append(f'  return {{{call}}};')
        elif op.result == 'bool':
            lines.append(f'  return {{tensor({call})}};')
        elif op.result == 'Tensor[]':
            lines.append(f'  return {call};')
        else:
            lines.append(f'  return as_vector({call});')
        lines.append('}')
        if not op.has_in_place:
            continue
        lines.append(f'std::vector<Tensor> write_{op.name}(const DynamicArguments& a) {{')
        for number in (op.tensors[i] for i in op.number_overloads() if i > 0):
            lines.append(f'  if (a.is_number({op.parameters.index(number)})) '
                         f'return {{{call_with(number, in_place=True)}}};')
        lines.append(f'  return {{{call_with(in_place=True)}}};\n}}')
    lines.append('\n}  // namespace\n\nconst DynamicOp kDynamicOps[] = {')
    for op in sorted(ops, key=lambda o: o.name):
        definition = ('nullptr, define_' + op.name) if op.composite else (
            'define_' + op.name + ', nullptr')
        in_place = f'write_{op.name}' if op.has_in_place else 'nullptr'
        lines.append(f'    {{"{op.name}", "{op.signature}", call_{op.name}, {in_place}, '
                     f'{definition}}},')
    lines.append('};')
    lines.append(f'const std::size_t kDynamicOpCount = {len(ops)};\n')
    lines.append('}  // namespace facula::ops')
    return '\n'.join(lines) + '\n'


def index_document(ops):
    lines = ['# Ops\n',
             'Generated from the op files. The name is what `call` takes; in C++, overloads share '
             'the part of the signature before the dot.\n',
             '| name | signature | |', '|---|---|---|']
    for op in sorted(ops, key=lambda o: o.name):
        lines.append(f'| `{op.name}` | `{op.signature}` | {op.doc} |')
    return '\n'.join(lines) + '\n'


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--ops', nargs='+', required=True, type=pathlib.Path)
    parser.add_argument('--out', required=True, type=pathlib.Path)
    options = parser.parse_args()
    ops = sorted((Op(path) for path in options.ops), key=lambda o: o.name)
    primitives = [op for op in ops if not op.composite]

    files = {
        'include/facula/ops.h': ops_header(ops),
        'include/facula/tensor_methods.inc': methods_header(ops),
        'ops/op_ids.h': HEADER + '#pragma once\n\n#include <cstdint>\n\nnamespace facula {\n\n'
                        'enum class OpId : std::uint16_t {\n'
                        + ''.join(f'  {op.name},\n' for op in primitives)
                        + '  count,\n};\n\n}  // namespace facula\n',
        'ops/functions.cpp': functions_source(ops),
        'ops/registration.cpp': registration_source(ops),
        'ops/ops_index.md': index_document(ops),
        'ops/list.cmake':
            f'set(FACULA_ELEMENTWISE_OPS {" ".join(o.name for o in ops if o.functor)})\n'
            f'set(FACULA_REDUCTION_OPS {" ".join(o.name for o in ops if o.reduction)})\n',
    }
    for op in primitives:
        files[f'ops/attrs/{op.name}.h'] = attrs_header(op)
        if op.path.suffix == '.h':
            # Ops that begin alike share a unit: reading headers takes longer than one of them.
            unit = f'ops/define/{op.name[0]}.cpp'
            files[unit] = files.get(unit, HEADER) + f'#include "ops/defs/{op.name}.h"\n'
    for directory, pattern in (('ops/attrs', '*.h'), ('ops/define', '*.cpp')):
        for old in (options.out / directory).glob(pattern):
            if f'{directory}/{old.name}' not in files:
                old.unlink()
    for name, content in files.items():
        path = options.out / name
        if not path.exists() or path.read_text() != content:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)


if __name__ == '__main__':
    main()
