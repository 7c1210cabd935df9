import { sleep } from '@conversation-operator/base/clock';
import { pods, type Pod } from '@conversation-operator/kube/core';
import type { SandboxTemplate } from '../../resources/sandbox-template.ts';
import { NotTried, type Scene } from './check.ts';

const activeDeadlineSeconds = 240;

export interface CheckPodOptions {
  readonly image: string;
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly labels?: Readonly<Record<string, string>>;
  readonly pullSecrets?: readonly { readonly name?: string }[];
  readonly claim?: string;
  /** Init containers of the pod, which may mount `volumes`. */
  readonly initContainers?: readonly object[];
  readonly volumes?: readonly object[];
  /** The pod gets the nodes, the security context and the classes of this template's pods. */
  readonly template: SandboxTemplate;
}

/** A small pod for the nodes of sandboxes, which passes the Pod Security Standard `restricted`. */
export function checkPod(options: CheckPodOptions) {
  const { image, command, args = [], labels = {}, pullSecrets = [], claim, template } = options;
  const { initContainers = [], volumes = [] } = options;
  const { spec } = template.spec.podTemplate;
  const { nodeSelector, tolerations, affinity, priorityClassName, runtimeClassName } = spec ?? {};
  return {
    labels,
    spec: {
      nodeSelector,
      tolerations,
      affinity,
      priorityClassName,
      runtimeClassName,
      restartPolicy: 'Never',
      activeDeadlineSeconds,
      terminationGracePeriodSeconds: 0,
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      imagePullSecrets: pullSecrets,
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        ...spec?.securityContext,
      },
      ...(initContainers.length === 0 ? {} : { initContainers }),
      containers: [
        {
          name: 'check',
          image,
          command,
          args,
          resources: {
            requests: { cpu: '10m', memory: '64Mi', 'ephemeral-storage': '16Mi' },
            limits: { cpu: '500m', memory: '128Mi', 'ephemeral-storage': '64Mi' },
          },
          securityContext: {
            allowPrivilegeEscalation: false,
            readOnlyRootFilesystem: true,
            capabilities: { drop: ['ALL'] },
          },
          volumeMounts: claim === undefined ? [] : [{ name: 'claim', mountPath: '/claim' }],
        },
      ],
      volumes: [
        ...volumes,
        ...(claim === undefined
          ? []
          : [{ name: 'claim', persistentVolumeClaim: { claimName: claim } }]),
      ],
    },
  };
}

/** Polls a pod until `decide` returns a value or `forMs` ends. Throws `NotTried` if it is gone. */
export async function observePod<T>(
  { client, clock, pollMs, namespace }: Scene,
  name: string,
  { forMs, signal }: { readonly forMs: number; readonly signal: AbortSignal },
  decide: (pod: Pod) => T | undefined | Promise<T | undefined>,
): Promise<T | undefined> {
  const until = clock.monotonic() + forMs;
  for (;;) {
    const pod = await client.get(pods, namespace, name, { signal });
    if (pod.metadata.deletionTimestamp !== undefined)
      throw new NotTried(`another process has deleted the pod ${name} of the check`);
    const decided = await decide(pod);
    if (decided !== undefined) return decided;
    if (clock.monotonic() >= until) return undefined;
    await sleep(clock, pollMs, signal);
  }
}

/** Termination message of the first container; undefined while it runs. */
export const lastTextOf = ({ status }: Pod): string | undefined =>
  status?.containerStatuses?.[0]?.state?.terminated?.message;
