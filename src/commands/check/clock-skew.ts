import { errorOf, FindingCode, NotTried, outcomeOf, type Finding } from './finding.ts';
import type { Check, ServerAnswer } from './scene.ts';

/** Maximum difference of clocks that is no finding. */
const maxSkewMs = 60_000;

/**
 * Own clock minus that of the API server, in milliseconds; undefined for an answer without a time.
 * The header has whole seconds, and belongs to a moment between the request and the answer.
 */
export function skewMs(answer: ServerAnswer): number | undefined {
  if ('failure' in answer || answer.date === undefined) return undefined;
  const serverMs = Date.parse(answer.date);
  if (Number.isNaN(serverMs)) return undefined;
  const { sentMs, receivedMs } = answer;
  if (receivedMs < serverMs) return receivedMs - serverMs;
  return Math.max(0, sentMs - (serverMs + 999));
}

/** Pure. */
export function clockFindings(skew: number): readonly Finding[] {
  if (Math.abs(skew) <= maxSkewMs) return [];
  const seconds = Math.round(Math.abs(skew) / 1000);
  return [
    errorOf(FindingCode.clockSkewed, {
      cause: `The clock here is ${seconds} s ${skew > 0 ? 'ahead of' : 'behind'} that of the API server.`,
      breaks:
        'Leases change their leader, deadlines of starts and retention times are wrong, and S3 and tokens refuse requests.',
      mend: 'sudo chronyc makestep # on the node or machine whose clock is wrong; then: chronyc tracking',
    }),
  ];
}

export const clockCheck: Check = {
  name: 'clock',
  limitMs: 10_000,
  needsApiServer: true,
  run: async (scene) => {
    const skew = skewMs(await scene.apiServer());
    if (skew === undefined) throw new NotTried('the answer of the API server has no Date header');
    return outcomeOf(clockFindings(skew), 'the clocks differ by less than 60 s');
  },
};
