import { decidePool, type ObservedPool } from '../../../../src/controllers/pool/decide.ts';
import { SandboxCondition, templateVersionAnnotation } from '../../../../src/resources/sandbox.ts';
import type { Sandbox } from '../../../../src/resources/sandbox.ts';
import { aPool, aWarmSandbox, aTemplate, admitted, condition } from '../../../support/builders.ts';

const booting = (name: string): Sandbox => aWarmSandbox(name, { conditions: [admitted] });
const unadmitted = (name: string): Sandbox => aWarmSandbox(name, { conditions: [] });
const failed = (name: string): Sandbox =>
  aWarmSandbox(name, {
    conditions: [admitted, condition(SandboxCondition.failed, 'True', 'CrashLoop')],
  });
/** A warm sandbox without an agent; `isFailed`: the sandbox controller does not try again. */
const without = (name: string, reason: string, isFailed = false): Sandbox =>
  aWarmSandbox(name, {
    conditions: [
      admitted,
      condition(SandboxCondition.ready, 'False', reason),
      ...(isFailed ? [condition(SandboxCondition.failed, 'True', reason)] : []),
    ],
  });
const scaledToZero = (name: string): Sandbox => {
  const warmSandbox = aWarmSandbox(name);
  return { ...warmSandbox, spec: { ...warmSandbox.spec, replicas: 0 } };
};
const bootedOnce = (...names: readonly string[]): Pick<ObservedPool, 'booted'> => ({
  booted: new Set(names.map((name) => aWarmSandbox(name).metadata.uid)),
});
const outdated = (name: string): Sandbox => {
  const warmSandbox = aWarmSandbox(name);
  return {
    ...warmSandbox,
    metadata: { ...warmSandbox.metadata, annotations: { [templateVersionAnnotation]: 'older/1' } },
  };
};

const decide = (observed: Partial<ObservedPool>) => {
  const plan = decidePool({
    pool: aPool(),
    template: aTemplate(),
    warmSandboxes: [],
    unseen: 0,
    room: Infinity,
    free: Infinity,
    allowance: 100,
    delayed: 0,
    isProbing: false,
    booted: new Set(),
    ...observed,
  });
  const { create, held, ready, reason } = plan;
  const namesOf = (warmSandboxes: readonly Sandbox[]) =>
    warmSandboxes.map(({ metadata }) => metadata.name);
  const [remove, unbooted] = [namesOf(plan.remove), namesOf(plan.failed)];
  return { remove, failed: unbooted, create, held, ready, reason };
};
const nothing = { remove: [], failed: [], create: 0, held: 0 };

describe('a pool', () => {
  const cases: [string, Partial<ObservedPool>, ReturnType<typeof decide>][] = [
    ['is filled', {}, { ...nothing, create: 2, ready: 0, reason: 'Refilling' }],
    [
      'is full',
      { warmSandboxes: [aWarmSandbox('a'), aWarmSandbox('b')] },
      { ...nothing, ready: 2, reason: 'Full' },
    ],
    [
      'creates no warm sandbox twice that the cache does not show yet',
      { warmSandboxes: [aWarmSandbox('a')], unseen: 1 },
      { ...nothing, ready: 1, reason: 'Refilling' },
    ],
    [
      'keeps warm sandboxes that wait at a scheduling gate, and creates the others',
      {
        pool: aPool({ replicas: 3 }),
        warmSandboxes: [without('a', 'SchedulingGated'), aWarmSandbox('b')],
      },
      { ...nothing, create: 1, ready: 1, reason: 'Waiting' },
    ],
    [
      'keeps a warm sandbox that waits for room in a ResourceQuota, and creates no other meanwhile',
      { pool: aPool({ replicas: 3 }), warmSandboxes: [without('a', 'ResourceQuotaExceeded')] },
      { ...nothing, held: 2, ready: 0, reason: 'Waiting' },
    ],
    [
      'keeps its pace',
      { pool: aPool({ replicas: 5 }), allowance: 2 },
      { ...nothing, create: 2, held: 3, ready: 0, reason: 'Refilling' },
    ],
    [
      'delays the replacements of warm sandboxes that were claimed just now, and of no others',
      { pool: aPool({ replicas: 5 }), warmSandboxes: [aWarmSandbox('a')], delayed: 3 },
      { ...nothing, create: 1, held: 3, ready: 1, reason: 'Refilling' },
    ],
    [
      'creates nothing while it has lost fewer warm sandboxes than starts have claimed',
      { warmSandboxes: [aWarmSandbox('a')], delayed: 3 },
      { ...nothing, held: 1, ready: 1, reason: 'Refilling' },
    ],
    [
      'takes no more room than other pools leave now',
      { pool: aPool({ replicas: 5 }), room: 3, free: 1 },
      { ...nothing, create: 1, held: 2, ready: 0, reason: 'Refilling' },
    ],
    [
      'creates nothing while other pools take more than their shares',
      { pool: aPool({ replicas: 5 }), room: 3, free: -1 },
      { ...nothing, held: 3, ready: 0, reason: 'Refilling' },
    ],
    [
      'waits for what boots',
      { warmSandboxes: [booting('a'), aWarmSandbox('b')] },
      { ...nothing, ready: 1, reason: 'Refilling' },
    ],
    [
      'keeps no warm sandbox when it is scaled to 0',
      { pool: aPool({ replicas: 0 }), warmSandboxes: [aWarmSandbox('a'), booting('b')] },
      { ...nothing, remove: ['b', 'a'], ready: 0, reason: 'ScaledToZero' },
    ],
    [
      'gives up what has no slot, then what boots, then what is ready',
      {
        pool: aPool({ replicas: 1 }),
        warmSandboxes: [aWarmSandbox('a'), booting('b'), aWarmSandbox('c'), unadmitted('d')],
      },
      { ...nothing, remove: ['d', 'b', 'a'], ready: 1, reason: 'Full' },
    ],
    [
      'replaces a failed warm sandbox',
      { warmSandboxes: [failed('a'), aWarmSandbox('b')] },
      { ...nothing, remove: ['a'], failed: ['a'], create: 1, ready: 1, reason: 'Refilling' },
    ],
    [
      'replaces a warm sandbox whose node is lost, which is no failed boot',
      { warmSandboxes: [without('a', 'NodeLost'), without('b', 'NodeLost', true)] },
      { ...nothing, remove: ['a', 'b'], create: 2, ready: 0, reason: 'Refilling' },
    ],
    [
      'replaces a warm sandbox that had booted before its eviction, which is no failed boot',
      {
        warmSandboxes: [without('a', 'PodEvicted'), without('b', 'PodEvicted', true)],
        ...bootedOnce('a', 'b'),
      },
      { ...nothing, remove: ['a', 'b'], create: 2, ready: 0, reason: 'Refilling' },
    ],
    [
      'counts a failed boot of an agent whose pod is evicted while the agent boots',
      { warmSandboxes: [without('a', 'PodEvicted'), without('b', 'PodEvicted', true)] },
      { ...nothing, remove: ['b'], failed: ['b'], create: 1, ready: 0, reason: 'Refilling' },
    ],
    [
      'replaces a warm sandbox that a person has scaled to 0',
      { warmSandboxes: [scaledToZero('a'), aWarmSandbox('b')] },
      { ...nothing, remove: ['a'], create: 1, ready: 1, reason: 'Refilling' },
    ],
    [
      'deletes a failed warm sandbox also while the next one waits for the back-off',
      { warmSandboxes: [failed('a'), aWarmSandbox('b')], allowance: 0 },
      { ...nothing, remove: ['a'], failed: ['a'], held: 1, ready: 1, reason: 'Refilling' },
    ],
    [
      'tries one warm sandbox after a failure',
      { pool: aPool({ replicas: 5 }), isProbing: true },
      { ...nothing, create: 1, held: 4, ready: 0, reason: 'Refilling' },
    ],
    [
      'waits for that one',
      { pool: aPool({ replicas: 5 }), isProbing: true, warmSandboxes: [booting('a')] },
      { ...nothing, held: 4, ready: 0, reason: 'Refilling' },
    ],
    [
      'waits for no warm sandbox that is outdated or has no slot',
      {
        pool: aPool({ replicas: 3 }),
        isProbing: true,
        warmSandboxes: [outdated('a'), unadmitted('b'), outdated('c')],
      },
      { ...nothing, remove: ['a'], create: 1, held: 1, ready: 0, reason: 'WaitingForRoom' },
    ],
    [
      'says that its warm sandboxes do not boot',
      {
        pool: { ...aPool(), status: { failures: 3 } },
        warmSandboxes: [booting('a')],
        allowance: 0,
      },
      { ...nothing, held: 1, ready: 0, reason: 'SpareFailed' },
    ],
    [
      'replaces the warm sandboxes of an edited template at its pace',
      { warmSandboxes: [outdated('a'), outdated('b')], allowance: 1 },
      { ...nothing, remove: ['a'], create: 1, held: 1, ready: 0, reason: 'Refilling' },
    ],
    [
      'removes an outdated warm sandbox first where its replacement needs its place',
      { warmSandboxes: [outdated('a'), outdated('b')], allowance: 1, free: 0 },
      { ...nothing, remove: ['a'], held: 2, ready: 0, reason: 'Refilling' },
    ],
    [
      'keeps an outdated warm sandbox as long as it may create no other',
      { warmSandboxes: [outdated('a'), outdated('b')], allowance: 0 },
      { ...nothing, held: 2, ready: 0, reason: 'Refilling' },
    ],
    [
      'waits for room under the limit of the namespace',
      { warmSandboxes: [aWarmSandbox('a'), unadmitted('b')] },
      { ...nothing, ready: 1, reason: 'WaitingForRoom' },
    ],
    [
      'stores no more warm sandboxes than the namespace has room for',
      { warmSandboxes: [aWarmSandbox('a')], room: 1 },
      { ...nothing, ready: 1, reason: 'WaitingForRoom' },
    ],
    [
      'deletes warm sandboxes whose place others need',
      { warmSandboxes: [aWarmSandbox('a'), booting('b')], room: 1 },
      { ...nothing, remove: ['b'], ready: 1, reason: 'WaitingForRoom' },
    ],
    [
      'keeps none without its template',
      { template: undefined, warmSandboxes: [aWarmSandbox('a')] },
      { ...nothing, remove: ['a'], ready: 0, reason: 'TemplateNotFound' },
    ],
    [
      'keeps none of a template that no pod can be made of',
      {
        template: {
          ...aTemplate(),
          status: { conditions: [{ ...condition('Valid', 'False'), observedGeneration: 1 }] },
        },
        warmSandboxes: [aWarmSandbox('a')],
      },
      { ...nothing, remove: ['a'], ready: 0, reason: 'TemplateInvalid' },
    ],
    [
      'waits for the verdict on an edited template',
      {
        template: {
          ...aTemplate(),
          status: { conditions: [{ ...condition('Valid', 'False'), observedGeneration: 0 }] },
        },
        warmSandboxes: [aWarmSandbox('a'), aWarmSandbox('b')],
      },
      { ...nothing, ready: 2, reason: 'Full' },
    ],
    [
      'keeps none of a template whose volumes outlive their sandboxes',
      { template: aTemplate({ storage: { size: '1Gi', retain: true } }) },
      { ...nothing, ready: 0, reason: 'TemplateRetainsVolumes' },
    ],
  ];
  it.each(cases)('%s', (_, observed, expected) => {
    expect(decide(observed)).toEqual(expected);
  });
});
