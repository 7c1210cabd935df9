import { quotaRules } from '../../src/quota/rules.ts';
import { ownerAnnotation } from '../../src/resources/sandbox.ts';
import { slotTaken } from '../../src/status/sandbox-phase.ts';
import type { Cluster } from './cluster.ts';
import type { Duty } from './duties.ts';
import { ownerOf } from './safety.ts';

const promptMs = 3_000;

/** Duties for the status of templates and quotas. */
export function dutiesOfRules(cluster: Cluster): readonly Duty[] {
  const templates = cluster.templates.filter(
    ({ metadata, status }) => status?.observedGeneration !== metadata.generation,
  );
  const { owners } = quotaRules(cluster.quotas);
  const orphans = cluster.pods.filter((pod) => cluster.sandboxOf(ownerOf(pod) ?? '') === undefined);
  const present = cluster.sandboxes.filter(slotTaken).map(({ spec }) => spec.owner);
  // A pod counts until it is gone, also where its sandbox is gone already. A leader that has not
  // seen the sandbox knows the owner from the pod.
  const counted = [
    orphans.map((pod) => cluster.ownerOfPod(pod)),
    orphans.map(({ metadata }) => metadata.annotations?.[ownerAnnotation] ?? ''),
  ].map((owners) => [...present, ...owners]);
  const quotas = cluster.quotas.flatMap(({ metadata, spec, status }): readonly Duty[] => {
    const isFor = (owner: string) =>
      // Warm sandboxes are room.
      owner !== '' &&
      (spec.scope === 'Namespace' ||
        (spec.owner === undefined ? !owners.has(owner) : spec.owner === owner));
    const active = counted.map((holders) => holders.filter(isFor).length);
    const subject = `quota ${metadata.name} generation ${metadata.generation}, ${active.join(' or ')} active`;
    const says =
      status?.observedGeneration === metadata.generation && active.includes(status.active ?? -1);
    return says
      ? []
      : [{ rule: 'the status of a quota is updated in time', subject, boundMs: promptMs }];
  });
  return [
    ...quotas,
    ...templates.map(({ metadata }) => ({
      rule: 'a template is validated in time',
      subject: `template ${metadata.name} generation ${metadata.generation}`,
      boundMs: promptMs,
    })),
  ];
}
