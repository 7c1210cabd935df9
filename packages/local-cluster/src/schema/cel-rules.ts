import { Environment } from '@marcbachmann/cel-js';
import { isArray, isObject, type Json } from '../json/json.ts';
import type { FieldError } from './field-error.ts';
import { partOf, type Schema, type ValidationRule } from './structural-schema.ts';

const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
})
  .registerVariable('self', 'dyn')
  .registerVariable('oldSelf', 'dyn');

type Program = (context: Record<string, unknown>) => unknown;

interface CompiledRule {
  readonly rule: ValidationRule;
  readonly evaluate: Program;
  /** True for a rule that uses oldSelf, and thus validates a change instead of a value. */
  readonly transition: boolean;
}

const compiled = new WeakMap<Schema, readonly CompiledRule[]>();

/** Returns the compiled rules of this schema node. @throws for a rule that does not parse */
function rulesOf(schema: Schema): readonly CompiledRule[] {
  const known = compiled.get(schema);
  if (known !== undefined) return known;
  const rules = (schema['x-kubernetes-validations'] ?? []).map((rule): CompiledRule => {
    const evaluate = environment.parse(rule.rule);
    return {
      rule,
      evaluate: (context): unknown => evaluate(context),
      transition: /\boldSelf\b/.test(rule.rule),
    };
  });
  compiled.set(schema, rules);
  return rules;
}

/** Converts JSON into CEL values: by `schema`, integers into int and date-times into timestamps. */
function celValueOf(value: Json | undefined, schema: Schema | undefined): unknown {
  if (isArray(value)) return value.map((item) => celValueOf(item, schema?.items));
  if (isObject(value))
    return new Map(
      Object.entries(value)
        .filter(([, child]) => child !== undefined)
        .map(([key, child]) => [key, celValueOf(child, partOf(schema, key))]),
    );
  if (typeof value === 'number')
    return Number.isInteger(value) && schema?.type !== 'number' ? BigInt(value) : value;
  if (typeof value === 'string' && schema?.format === 'date-time') {
    const time = new Date(value);
    return Number.isNaN(time.getTime()) ? value : time;
  }
  return value;
}

const typeNames: Readonly<Record<string, string>> = {
  object: 'object',
  string: 'string',
  boolean: 'bool',
};
const shownType = (value: Json): string =>
  isArray(value)
    ? 'array'
    : (typeNames[typeof value] ?? (Number.isInteger(value) ? 'integer' : 'number'));

/** Returns the errors of this schema node's rules. Without `old`, transition rules do not apply. */
export function checkRules(
  value: Json,
  old: Json | undefined,
  schema: Schema,
  path: string,
): readonly FieldError[] {
  const rules = rulesOf(schema).filter(({ transition }) => !transition || old !== undefined);
  if (rules.length === 0) return [];
  const context = {
    self: celValueOf(value, schema),
    ...(old === undefined ? {} : { oldSelf: celValueOf(old, schema) }),
  };
  return rules.flatMap((rule) => {
    const failure = failureOf(rule, context);
    if (failure === undefined) return [];
    const field = `${path}${rule.rule.fieldPath ?? ''}`.replace(/^\./, '');
    const message = `Invalid value: "${shownType(value)}": ${failure}`;
    return [{ field, reason: 'FieldValueInvalid', message }];
  });
}

function failureOf(
  { rule, evaluate }: CompiledRule,
  context: Record<string, unknown>,
): string | undefined {
  const message = rule.message ?? `failed rule: ${rule.rule}`;
  try {
    return evaluate(context) === true ? undefined : message;
  } catch (error) {
    const [first] = String(error instanceof Error ? error.message : error).split('\n');
    return `${first ?? ''} evaluating rule: ${message}`;
  }
}
