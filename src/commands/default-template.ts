import type { NewObject } from '@conversation-operator/kube/object';
import { apiVersion } from '../resources/group.ts';
import {
  defaultTemplateName,
  sandboxTemplates,
  type SandboxTemplate,
} from '../resources/sandbox-template.ts';

/** Image name of the reference agent on the local cluster. */
export const referenceAgentImage = 'conversation-operator/reference-agent';

/**
 * How long the agents of an embedded installation may be idle before their sandboxes are paused;
 * the chart has the same.
 */
export const defaultIdleTimeout = '30m';

/** Initial template of a local installation. Later starts keep the changes of users. */
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
