import type { KubeClient } from '@conversation-operator/kube/client';
import type { KubeObject } from '@conversation-operator/kube/object';
import { findCondition, type Condition } from '../../../src/resources/conditions.ts';
import { conversations } from '../../../src/resources/conversation.ts';
import { sandboxes } from '../../../src/resources/sandbox.ts';
import type { Kill } from '../mutants/mutant.ts';
import type { ComponentMutant } from './component-mutant.ts';
import { client } from './replaced-methods.ts';

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

/** Mutants of retention, each named by a sentence. */
export const retentionMutants = {
  'an announced object is deleted at once': afterAnnouncement(
    async (whole, { kind, metadata: { namespace = 'default', name } }) => {
      const deletion =
        kind === conversations.kind
          ? whole.delete(conversations, namespace, name)
          : whole.delete(sandboxes, namespace, name);
      await deletion.catch(() => undefined);
    },
  ),
  'no announcement is stored': {
    client: client((whole) => ({
      updateStatus: async (resource, object, options) =>
        isRetained(resource) && isAnnounced(object)
          ? whole.get(resource, object.metadata.namespace ?? 'default', object.metadata.name)
          : whole.updateStatus(resource, object, options),
    })),
  },
} as const satisfies Readonly<Record<string, ComponentMutant>>;

/** The check that kills each mutant. */
export const retentionKills: Readonly<Record<keyof typeof retentionMutants, Kill>> = {
  'an announced object is deleted at once': {
    rule: /deletions are announced|no object in use is deleted/,
  },
  'no announcement is stored': { rule: 'everything settles' },
};
