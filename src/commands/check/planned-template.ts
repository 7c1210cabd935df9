import { apiVersion } from '../../resources/group.ts';
import {
  defaultTemplateName,
  sandboxTemplates,
  type SandboxTemplate,
} from '../../resources/sandbox-template.ts';

export interface PlannedTemplate {
  readonly namespace: string;
  readonly image: string;
  /** Absent: the default class of the cluster. */
  readonly storageClass?: string | undefined;
  readonly runtimeClass?: string | undefined;
}

/**
 * The default template of the chart with its default values, before an installation has made it; a
 * test compares the two.
 */
export const plannedTemplate = ({
  namespace,
  image,
  storageClass,
  runtimeClass,
}: PlannedTemplate): SandboxTemplate => ({
  apiVersion,
  kind: sandboxTemplates.kind,
  metadata: {
    name: defaultTemplateName,
    namespace,
    uid: 'planned',
    resourceVersion: '0',
    generation: 1,
    creationTimestamp: '1970-01-01T00:00:00Z',
  },
  spec: {
    podTemplate: {
      spec: {
        ...(runtimeClass === undefined ? {} : { runtimeClassName: runtimeClass }),
        securityContext: {
          runAsUser: 10001,
          runAsGroup: 10001,
          fsGroup: 10001,
          fsGroupChangePolicy: 'OnRootMismatch',
        },
        containers: [
          {
            name: 'agent',
            image,
            imagePullPolicy: 'IfNotPresent',
            resources: {
              requests: { cpu: '100m', memory: '256Mi', 'ephemeral-storage': '128Mi' },
              limits: { cpu: '2', memory: '2Gi', 'ephemeral-storage': '4Gi' },
            },
            securityContext: { readOnlyRootFilesystem: true },
            volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }],
          },
        ],
        volumes: [{ name: 'tmp', emptyDir: { sizeLimit: '2Gi' } }],
      },
    },
    agent: { port: 8000, workingDir: '/workspace', kind: 'openhands' },
    storage: {
      size: '10Gi',
      retain: false,
      ...(storageClass === undefined ? {} : { storageClassName: storageClass }),
    },
    idleTimeout: '30m',
    startDeadline: '5m',
  },
});
