import type { KubeClient } from '@conversation-operator/kube/client';
import { isAlreadyExists } from '@conversation-operator/kube/errors';
import type { KubeObject, NewObject, ResourceDefinition } from '@conversation-operator/kube/object';
import { conversationQuotas, type ConversationQuota } from '../resources/conversation-quota.ts';
import { apiVersion } from '../resources/group.ts';
import {
  defaultTemplateName,
  sandboxTemplates,
  type SandboxTemplate,
} from '../resources/sandbox-template.ts';
import { sandboxPools } from '../resources/sandbox-pool.ts';

/** Creates the object unless an object of this name exists: users may have changed it. */
export async function ensure<T extends KubeObject>(
  client: KubeClient,
  resource: ResourceDefinition<T>,
  object: NewObject<T>,
): Promise<void> {
  try {
    await client.create(resource, object);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
  }
}

/** Initial quota of an installation. Later starts do not overwrite changes of users. */
export const defaultQuota = (namespace: string): NewObject<ConversationQuota> => ({
  apiVersion,
  kind: conversationQuotas.kind,
  metadata: { name: 'default', namespace },
  spec: {
    scope: 'Owner',
    limit: 10,
    onExceeded: 'PauseOldest',
    minActiveSeconds: 0,
    autoResume: 'All',
    // docs/sizing.md has the reasons for these numbers.
    maxConversations: 1_000,
    maxStoredBytes: 64 * 1024 * 1024,
    maxSandboxes: 100,
  },
});

export const referenceAgentImage = 'conversation-operator/reference-agent';

/** Default time without a run after which a sandbox is paused. The chart has the same value. */
export const defaultIdleTimeout = '30m';

/** Initial template for the command `up`. Later starts do not overwrite changes of users. */
export const defaultTemplate = (namespace: string): NewObject<SandboxTemplate> => ({
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: { name: defaultTemplateName, namespace },
  spec: {
    displayName: 'Reference agent',
    description:
      'Runs the shell code blocks of a message, or works with a model where one is named.',
    podTemplate: {
      spec: {
        containers: [
          {
            name: 'agent',
            image: referenceAgentImage,
            resources: { requests: { cpu: '50m', memory: '64Mi' }, limits: { memory: '1Gi' } },
          },
        ],
      },
    },
    agent: { port: 8000, workingDir: '/workspace' },
    storage: { size: '1Gi', retain: false },
    idleTimeout: defaultIdleTimeout,
    startDeadline: '2m',
  },
});

/** Sets the number of warm sandboxes of a template; undefined leaves the pool unchanged. */
export async function keepWarm(
  client: KubeClient,
  namespace: string,
  templateName: string,
  replicas: number | undefined,
): Promise<void> {
  if (replicas === undefined) return;
  const { kind } = sandboxPools;
  const metadata = { name: templateName, namespace };
  const spec = { templateName, replicas, refill: { maxPerMinute: 60, delay: '1s' } };
  try {
    await client.create(sandboxPools, { apiVersion, kind, metadata, spec });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    await client.mergePatch(sandboxPools, namespace, templateName, { spec: { replicas } });
  }
}
