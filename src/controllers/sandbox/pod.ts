import type { V1Container, V1EnvVar } from '@kubernetes/client-node';
import { pods, type Pod } from '../../resources/core.ts';
import { apiVersionOf, ownerReferenceTo, type NewObject, type Wire } from '../../resources/object.ts';
import { ownerAnnotation, sandboxLabels, type Sandbox } from '../../resources/sandbox.ts';
import { agentContainerOf, type SandboxTemplate } from '../../resources/sandbox-template.ts';

type Container = Wire<V1Container>;
type EnvVar = Wire<V1EnvVar>;

/** The volume that outlives the pod; every template may use it under this name. */
export const workspaceVolume = 'workspace';
/** Where the agent keeps its own state on that volume, below the working directory. */
export const agentStateFolder = '.agent';

/** A sandbox has one pod and one claim, both under its own name: two pods on one volume can't be. */
export const podNameOf = (sandbox: Sandbox): string => sandbox.metadata.name;

const agentEnvironment = (workingDir: string, bootstrapKey: string): EnvVar[] => [
  // The agent starts without keys and gets them by its init call, so that they stand neither here nor in its environment.
  { name: 'OH_DEFERRED_INIT', value: 'true' },
  { name: 'OH_SECRET_KEY', value: bootstrapKey },
  { name: 'OH_CONVERSATIONS_PATH', value: `${workingDir}/${agentStateFolder}/conversations` },
  { name: 'OH_BASH_EVENTS_DIR', value: `${workingDir}/${agentStateFolder}/bash-events` },
  // One pod per volume is the operator's promise; the agent's lease would only delay a resume.
  { name: 'OH_LEASE_TTL_SECONDS', value: '0' },
  { name: 'OH_ENABLE_VSCODE', value: 'false' },
  { name: 'OH_PRELOAD_TOOLS', value: 'false' },
  { name: 'HOME', value: workingDir },
  // Event timestamps of the agent have no zone.
  { name: 'TZ', value: 'UTC' },
];

/** What stands in `base` under the same key gives way. */
const mergeBy = <T>(key: (entry: T) => string, base: readonly T[], wins: readonly T[]): T[] => {
  const taken = new Set(wins.map(key));
  return [...base.filter((entry) => !taken.has(key(entry))), ...wins];
};

function agentContainer(container: Container, template: SandboxTemplate, bootstrapKey: string): Container {
  const { port, workingDir } = template.spec.agent;
  return {
    ...container,
    workingDir: container.workingDir ?? workingDir,
    env: mergeBy(({ name }) => name, container.env ?? [], agentEnvironment(workingDir, bootstrapKey)),
    ports: mergeBy(({ containerPort }) => String(containerPort), container.ports ?? [], [{ name: 'agent', containerPort: port }]),
    volumeMounts: mergeBy(({ mountPath }) => mountPath, container.volumeMounts ?? [], [{ name: workspaceVolume, mountPath: workingDir }]),
    readinessProbe: container.readinessProbe ?? { httpGet: { path: '/ready', port }, periodSeconds: 5, timeoutSeconds: 5 },
    // A long time-out: the agent stalls for seconds when it renders a traceback.
    livenessProbe: container.livenessProbe ?? {
      httpGet: { path: '/alive', port },
      initialDelaySeconds: 30,
      periodSeconds: 20,
      timeoutSeconds: 10,
      failureThreshold: 3,
    },
  };
}

/** What the Pod Security Standard `restricted` wants of every container, where the template does not say otherwise. */
const hardened = (container: Container): Container => ({
  ...container,
  securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] }, ...container.securityContext },
});

/** The pod of a sandbox: the template's, with the agent's volume, port, probes and environment added. */
export function buildPod(sandbox: Sandbox, template: SandboxTemplate, bootstrapKey: string): NewObject<Pod> {
  const { metadata, spec } = template.spec.podTemplate;
  const agent = agentContainerOf(template);
  return {
    apiVersion: apiVersionOf(pods),
    kind: pods.kind,
    metadata: {
      name: podNameOf(sandbox),
      namespace: sandbox.metadata.namespace,
      labels: { ...metadata?.labels, ...sandboxLabels(sandbox.metadata.name) },
      annotations: { ...metadata?.annotations, [ownerAnnotation]: sandbox.spec.owner },
      ownerReferences: [ownerReferenceTo(sandbox, { controller: true })],
    },
    spec: {
      // Nothing in a sandbox may talk to the API server.
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 10,
      ...spec,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' }, ...spec?.securityContext },
      restartPolicy: 'Always',
      ...(spec?.initContainers === undefined ? {} : { initContainers: spec.initContainers.map(hardened) }),
      containers: (spec?.containers ?? []).map((container) =>
        hardened(container === agent ? agentContainer(container, template, bootstrapKey) : container),
      ),
      volumes: mergeBy(({ name }) => name, spec?.volumes ?? [], [
        { name: workspaceVolume, persistentVolumeClaim: { claimName: sandbox.metadata.name } },
      ]),
    },
  };
}
