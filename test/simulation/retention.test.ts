import type { KubeClient } from '../../packages/kube/src/client.ts';
import { findCondition, type Condition } from '../../src/resources/conditions.ts';
import { conversations } from '../../src/resources/conversation.ts';
import type { KubeObject } from '../../packages/kube/src/object.ts';
import { sandboxes } from '../../src/resources/sandbox.ts';
import { client } from './component-mutants/replaced-methods.ts';
import { mustBeKilled, mustBeClean, type ExpectedKill } from './expectations.ts';
import type { ComponentMutant } from './component-mutants/component-mutant.ts';

const timeoutMs = 300_000;

const isAnnounced = (object: object): boolean =>
  'status' in object &&
  findCondition(
    (object.status as { readonly conditions?: readonly Condition[] } | undefined)?.conditions,
    'Expiring',
  ) !== undefined;

/** Whether retention deletes objects of the kind. */
const isRetained = ({ kind }: { readonly kind: string }): boolean =>
  kind === conversations.kind || kind === sandboxes.kind;

/** After each write of a status with an announcement. */
const afterAnnouncement = (
  act: (whole: KubeClient, stored: KubeObject) => Promise<void>,
): ComponentMutant => ({
  client: client((whole) => ({
    updateStatus: async (resource, object, options) => {
      const stored = await whole.updateStatus(resource, object, options);
      if (isRetained(resource) && isAnnounced(stored)) await act(whole, stored);
      return stored;
    },
  })),
});

/** Mutants of retention, each named by a sentence, and the check that kills it. */
const operatorMutants: Readonly<Record<string, ComponentMutant & ExpectedKill>> = {
  'an announced object is deleted at once': {
    rule: /deletions are announced|no object in use is deleted/,
    ...afterAnnouncement(async (whole, { kind, metadata: { namespace = 'default', name } }) => {
      const deletion =
        kind === conversations.kind
          ? whole.delete(conversations, namespace, name)
          : whole.delete(sandboxes, namespace, name);
      await deletion.catch(() => undefined);
    }),
  },
  'no announcement is stored': {
    rule: 'everything settles',
    client: client((whole) => ({
      updateStatus: async (resource, object, options) =>
        isRetained(resource) && isAnnounced(object)
          ? whole.get(resource, object.metadata.namespace ?? 'default', object.metadata.name)
          : whole.updateStatus(resource, object, options),
    })),
  },
};

describe('the simulation with deletions by retention', () => {
  it.each<[NonNullable<ExpectedKill['faults']>, boolean, number, number]>([
    ['all', false, 1, 60],
    ['all', true, 1, 60],
    ['of leaders', false, 1, 20],
    ['none', true, 1, 25],
  ])(
    'is clean under faults: %s, with messages: %s, with seeds %i to %i',
    async (faults, messages, first, last) => {
      for (let seed = first; seed <= last; seed++)
        await mustBeClean({ seed, faults, messages, retention: true });
    },
    timeoutMs,
  );

  it.each(Object.entries(operatorMutants))(
    'notices when %s',
    async (_name, { rule, ...mutant }) =>
      mustBeKilled(mutant, { rule, messages: true, retention: true }),
    timeoutMs,
  );
});
