import { Environment } from '@marcbachmann/cel-js';
import { isArray, isObject, type Json } from '../json/json.ts';
import type { FieldError } from './field-error.ts';
import { partOf, valuesOf, type Schema, type ValidationRule } from './structural-schema.ts';

const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
})
  .registerVariable('self', 'dyn')
  .registerVariable('oldSelf', 'dyn');

type Program = (context: Record<string, unknown>) => unknown;

export interface CompiledRule {
  readonly rule: ValidationRule;
  readonly evaluate: Program;
  readonly message?: Program;
  /** True for a rule that uses oldSelf and thus validates a change instead of a value. */
  readonly transition: boolean;
}

const compiled = new WeakMap<Schema, readonly CompiledRule[]>();

/** Returns the rules of the schema itself, compiled once. @throws for a rule that does not parse */
export function rulesOf(schema: Schema): readonly CompiledRule[] {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const rules = (schema['x-kubernetes-validations'] ?? []).map((rule): CompiledRule => {
    const evaluate = environment.parse(rule.rule);
    return {
      rule,
      evaluate: (context): unknown => evaluate(context),
      ...(rule.messageExpression === undefined
        ? {}
        : { message: environment.parse(rule.messageExpression) }),
      transition: /\boldSelf\b/.test(rule.rule),
    };
  });
  compiled.set(schema, rules);
  return rules;
}

/** Converts JSON into CEL values by the schema: ints, timestamps of date-times, and bytes. */
export function celValueOf(value: Json | undefined, schema: Schema | undefined): unknown {
  if (isArray(value)) return value.map((item) => celValueOf(item, schema?.items));
  if (isObject(value)) {
    // The keys of a map are values, not identifiers.
    const isMap = schema !== undefined && valuesOf(schema) !== undefined;
    const nameOf = (key: string) => (isMap ? key : escaped(key));
    return new Map(
      Object.entries(value)
        .filter(([, child]) => child !== undefined)
        .map(([key, child]) => [nameOf(key), celValueOf(child, partOf(schema, key))]),
    );
  }
  if (typeof value === 'number')
    return Number.isInteger(value) && schema?.type !== 'number' ? BigInt(value) : value;
  if (typeof value === 'string' && schema?.format === 'date-time') {
    const time = new Date(value);
    return Number.isNaN(time.getTime()) ? value : time;
  }
  if (typeof value === 'string' && schema?.format === 'byte')
    return new Uint8Array(Buffer.from(value, 'base64'));
  return value;
}

const reserved: ReadonlySet<string> = new Set(
  'true false null in as break const continue else for function if import let loop package namespace return var void while'.split(
    ' ',
  ),
);

/** Escapes field names that are not CEL identifiers, as Kubernetes does. */
const escaped = (key: string): string => {
  if (reserved.has(key)) return `__${key}__`;
  if (!/[.\-/]|__/.test(key) || !/^[A-Za-z_][\w.\-/]*$/.test(key)) return key;
  return key
    .replaceAll('__', '__underscores__')
    .replaceAll('.', '__dot__')
    .replaceAll('-', '__dash__')
    .replaceAll('/', '__slash__');
};

const typeNames: Readonly<Record<string, string>> = {
  object: 'object',
  string: 'string',
  boolean: 'bool',
};
const shownType = (value: Json): string =>
  isArray(value)
    ? 'array'
    : (typeNames[typeof value] ?? (Number.isInteger(value) ? 'integer' : 'number'));

/** Errors of the rules of this schema node. `old` absent: transition rules do not apply. */
export function checkRules(
  value: Json,
  old: Json | undefined,
  schema: Schema,
  path: string,
): readonly FieldError[] {
  const rules = rulesOf(schema).filter(
    ({ transition, rule }) => !transition || old !== undefined || rule.optionalOldSelf === true,
  );
  if (rules.length === 0) return [];
  const context = {
    self: celValueOf(value, schema),
    ...(old === undefined ? {} : { oldSelf: celValueOf(old, schema) }),
  };
  return rules.flatMap((rule) => {
    const failure = failureOf(rule, context);
    if (failure === undefined) return [];
    const field = `${path}${rule.rule.fieldPath ?? ''}`.replace(/^\./, '');
    const { reason = 'FieldValueInvalid' } = rule.rule;
    const heads: Readonly<Record<string, string>> = {
      FieldValueForbidden: 'Forbidden',
      FieldValueRequired: 'Required value',
      FieldValueDuplicate: `Duplicate value: "${shownType(value)}"`,
    };
    return [
      {
        field,
        reason,
        message: `${heads[reason] ?? `Invalid value: "${shownType(value)}"`}: ${failure}`,
      },
    ];
  });
}

function failureOf(rule: CompiledRule, context: Record<string, unknown>): string | undefined {
  try {
    if (rule.evaluate(context) === true) return undefined;
  } catch (error) {
    const [first] = String(error instanceof Error ? error.message : error).split('\n');
    return `${first ?? ''} evaluating rule: ${messageOf(rule, context)}`;
  }
  return messageOf(rule, context);
}

function messageOf({ rule, message }: CompiledRule, context: Record<string, unknown>): string {
  try {
    const text = message?.(context);
    if (typeof text === 'string' && text !== '') return text;
  } catch {
    // A message expression that fails falls back to the fixed message, as in Kubernetes.
  }
  return rule.message ?? `failed rule: ${rule.rule}`;
}
