import { outcomeOf } from './finding.ts';
import { outwardDoubts, outwardFindings, type Reached } from './outward-findings.ts';
import { connectFailureOf } from './outward-requests.ts';
import type { Check } from './scene.ts';
import { trustFileFindings } from './trust.ts';

export const outwardCheck: Check = {
  name: 'outward',
  limitMs: 20_000,
  needsApiServer: false,
  run: async (scene, signal) => {
    const { gitHosts, bucket, outward } = scene;
    const hosts = [
      ...Object.entries(gitHosts).map(([provider, url]) => ({
        ...{ url, what: `the git host ${provider}` },
      })),
      ...(bucket === undefined ? [] : [{ url: bucket.url, what: `the bucket ${bucket.name}` }]),
    ].filter(({ url }) => /^https?:/.test(url));
    const reached = await Promise.all(
      hosts.map(async ({ url, what }): Promise<Reached> => {
        const { origin } = new URL(url);
        const proxy = outward.proxyOf(new URL(url));
        try {
          // Any status of a host is an answer: the base of a store often is one of 403.
          const { status, sender } = await outward.ask(new URL('/', origin), { signal });
          const failure = sender === 'host' ? undefined : ({ kind: 'doubt', status } as const);
          return { origin, what, proxy, failure };
        } catch (error) {
          signal.throwIfAborted();
          return { origin, what, proxy, failure: connectFailureOf(error) };
        }
      }),
    );
    const findings = [...trustFileFindings(scene), ...outwardFindings(reached, scene)];
    if (reached.length === 0) return outcomeOf(findings, 'no host outside is set');
    const origins = reached.flatMap(({ origin, proxy, failure }) =>
      failure === undefined ? [`${origin}${proxy === undefined ? '' : ` by ${proxy}`}`] : [],
    );
    const observed = origins.length === 0 ? '' : `reached: ${origins.join(', ')}`;
    return outcomeOf(findings, observed, outwardDoubts(reached));
  },
};
