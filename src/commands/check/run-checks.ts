import type { Clock } from '@conversation-operator/base/clock';
import { ApiError, TransportError } from '@conversation-operator/kube/errors';
import {
  noNamespace,
  NotTried,
  outcomeOf,
  type Finding,
  type Outcome,
  type Check,
  type Scene,
} from './check.ts';
import { oneLine, textTable } from '../terminal.ts';

export interface CheckResult extends Outcome {
  readonly name: string;
}

/** Reason why an error prevents a check. Undefined: the error is a bug of this program. */
export function notTriedReason(error: unknown): string | undefined {
  if (error instanceof NotTried) return error.message;
  if (error instanceof ApiError)
    switch (error.status) {
      case 403:
        return `no right: ${oneLine(error.message)}`;
      case 404: {
        // A 404 without a reason means that the API path does not exist.
        if (error.reason === '') return 'the API server does not serve the API of this check';
        const [, namespace] = /^namespaces "([^"]+)" not found$/.exec(error.message) ?? [];
        return namespace === undefined
          ? `the API server does not have it: ${oneLine(error.message)}`
          : noNamespace(namespace);
      }
      default:
        return `the API server answers ${error.status}: ${oneLine(error.message)}`;
    }
  if (error instanceof TransportError) return oneLine(error.message);
  return undefined;
}

/** Runs work until the time limit or the interruption, which both throw `NotTried`. */
async function within<T>(
  {
    limitMs,
    clock,
    interrupted,
  }: { readonly limitMs: number; readonly clock: Clock; readonly interrupted: AbortSignal },
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const controller = new AbortController();
  const ended = Promise.withResolvers<never>();
  const end = (reason: string) => {
    const error = new NotTried(reason);
    controller.abort(error);
    // Some work ignores the signal, such as a DNS lookup. Its result is then ignored.
    ended.reject(error);
  };
  const onInterrupt = () => end('the command was interrupted');
  const timer = clock.after(limitMs, () => end(`no result within ${limitMs / 1000} s`));
  interrupted.addEventListener('abort', onInterrupt, { once: true });
  if (interrupted.aborted) onInterrupt();
  ended.promise.catch(() => undefined);
  try {
    return await Promise.race([work(controller.signal), ended.promise]);
  } catch (error) {
    // After an abort, the reason of the abort is the error to report.
    throw controller.signal.aborted ? controller.signal.reason : error;
  } finally {
    timer.cancel();
    interrupted.removeEventListener('abort', onInterrupt);
  }
}

export interface RunOptions {
  readonly checks: readonly Check[];
  readonly scene: Scene;
  /** Ends all checks. The objects that they have created are deleted nevertheless. */
  readonly interrupted: AbortSignal;
}

/**
 * Runs checks concurrently, then deletes the objects that they created. Checks that need the API
 * server wait for its first answer, and are not tried without an answer. An additional result at
 * the end reports objects that may still exist.
 */
export async function runChecks({
  checks,
  scene,
  interrupted,
}: RunOptions): Promise<readonly CheckResult[]> {
  const { clock, objects } = scene;
  const run = async (check: Check): Promise<CheckResult> => {
    const { name, limitMs } = check;
    try {
      const outcome = await within({ limitMs, clock, interrupted }, (signal) =>
        check.run(scene, signal),
      );
      return { name, ...outcome };
    } catch (error) {
      const reason = notTriedReason(error);
      if (reason === undefined) throw error;
      return { name, ...outcomeOf([], '', [reason]) };
    }
  };
  const reachable = async (): Promise<boolean> => {
    const answer = await scene.apiServer();
    return !('failure' in answer) && answer.status !== 401;
  };
  const results = await Promise.allSettled(
    checks.map(async (check): Promise<CheckResult> => {
      if (!check.needsApiServer || (await reachable())) return run(check);
      const reason = 'the API server does not answer, or not to these credentials';
      return { name: check.name, ...outcomeOf([], '', [reason]) };
    }),
  );
  const left = await objects.close();
  return [
    ...results.map((result) => {
      if (result.status === 'rejected') throw result.reason;
      return result.value;
    }),
    ...(left.length === 0 ? [] : [{ name: 'clean-up', ...outcomeOf([], '', left) }]),
  ];
}

/** 0: there is no error. 1: there is an error. 2: a check was not tried completely. */
export function exitCodeOf(results: readonly CheckResult[]): 0 | 1 | 2 {
  const findings: readonly Finding[] = results.flatMap((result) => result.findings);
  if (findings.some(({ severity }) => severity === 'error')) return 1;
  return results.some(({ notTried }) => notTried.length > 0) ? 2 : 0;
}

function verdictOf({ findings, notTried }: CheckResult): string {
  if (findings.some(({ severity }) => severity === 'error')) return 'error';
  if (findings.length > 0) return 'warning';
  return notTried.length > 0 ? 'not tried' : 'passed';
}

const rowOf = (result: CheckResult): readonly string[] => {
  const { name, findings, notTried, observed } = result;
  const codes = [...new Set(findings.map(({ code }) => code))].join(', ');
  const verdict = verdictOf(result);
  const isWhole = verdict === 'not tried' && observed === '';
  const untried = notTried.map((reason) => (isWhole ? reason : `not tried: ${reason}`));
  return [
    name,
    verdict,
    [codes === '' ? observed : codes, ...untried].filter((text) => text !== '').join('; '),
  ];
};

const last = (results: readonly CheckResult[]): string => {
  const all = results.flatMap(({ findings }) => findings);
  const count = (severity: string) => all.filter((each) => each.severity === severity).length;
  const untried = results.filter(({ notTried }) => notTried.length > 0).length;
  return `errors: ${count('error')}, warnings: ${count('warning')}, not tried or not as a whole: ${untried} of ${results.length} checks`;
};

/** The report for a terminal: a table, then each finding with the command that fixes it. */
export function textReport(results: readonly CheckResult[]): string {
  const findings = results.flatMap(({ name, findings: of }) =>
    of.map(({ severity, code, cause, breaks, remedy }) =>
      [
        `${severity}: ${code} (${name})`,
        `  cause:   ${cause}`,
        `  breaks:  ${breaks}`,
        `  remedy:  ${remedy}`,
      ].join('\n'),
    ),
  );
  const table = textTable([['CHECK', 'RESULT', 'OBSERVED'], ...results.map(rowOf)]);
  return `${[table, ...findings, last(results)].join('\n\n')}\n`;
}

export const jsonReport = (results: readonly CheckResult[]): string =>
  `${JSON.stringify(
    {
      exitCode: exitCodeOf(results),
      checks: results.map((result) => ({ ...result, result: verdictOf(result) })),
    },
    undefined,
    2,
  )}\n`;
