import { createContext, Script } from 'node:vm';
import { Environment } from '@marcbachmann/cel-js';

const environment = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
  limits: { maxAstNodes: 1_000, maxDepth: 50 },
}).registerVariable('claims', 'map<string, dyn>');

/** An expression in CEL over the variable `claims`. */
export interface ClaimExpression {
  readonly text: string;
}

/** Throws an Error, in words for the platform, for a text that is no condition in CEL. */
export function parseClaimExpression(text: string): ClaimExpression {
  const { valid, type, error } = environment.check(text);
  if (!valid) throw new Error(reasonOf(error));
  if (type !== 'bool' && type !== 'dyn')
    throw new Error(`the expression gives ${type ?? 'no value'}, and must give bool`);
  return { text };
}

/** Maximum time of all expressions about one person. */
const maxMs = 250;
/** Runs with a time limit, which also ends a regular expression and a loop inside the evaluator. */
const script = new Script('evaluate()');

function celValueOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(celValueOf);
  if (typeof value === 'object' && value !== null)
    return new Map(Object.entries(value).map(([name, child]) => [name, celValueOf(child)]));
  return Number.isSafeInteger(value) ? BigInt(value as number) : value;
}

/** The first line of a message; the other lines show the expression. */
function reasonOf(error: unknown): string {
  // An error of the time limit is none of this realm.
  const message =
    typeof error === 'object' && error !== null && 'message' in error ? error.message : '';
  return String(message).split('\n', 1).join('').slice(0, 200);
}

/** Whether the expression holds, or why that is not known. */
export type Answer = boolean | { readonly failure: string };

/**
 * One answer for each expression. An expression that throws, that gives no boolean, or that is not
 * done within 250 ms together with those before it, has a failure in place of an answer.
 */
export function evaluateClaimExpressions(
  expressions: readonly ClaimExpression[],
  claims: Readonly<Record<string, unknown>>,
): readonly Answer[] {
  if (expressions.length === 0) return [];
  const answers: Answer[] = [];
  const failAll = (failure: string) =>
    expressions.map((_expression, index): Answer => answers[index] ?? { failure });
  const evaluate = () => {
    const context = { claims: celValueOf(claims) };
    for (const { text } of expressions) answers.push(answerOf(text, context));
  };
  try {
    script.runInContext(createContext({ evaluate }), { timeout: maxMs });
  } catch (error) {
    return failAll(reasonOf(error));
  }
  return answers;
}

/** Parses anew each time: a program that was interrupted once may be in any state. */
function answerOf(text: string, context: Record<string, unknown>): Answer {
  try {
    const answer: unknown = environment.evaluate(text, context);
    return typeof answer === 'boolean'
      ? answer
      : { failure: `the expression has given ${typeof answer}, and no bool` };
  } catch (error) {
    return { failure: reasonOf(error) };
  }
}
