import type { V1Container } from '@kubernetes/client-node';
import { agentKindOf, agentNameOf, agentPortOf, kindDefinitions } from '../../agent/kinds.ts';
import type { CachedContainer, CachedPod } from '../../resources/cached-core.ts';
import { pods, type Pod } from '@conversation-operator/kube/core';
import { group } from '../../resources/group.ts';
import {
  apiVersionOf,
  ownerReferenceTo,
  type NewObject,
  type Wire,
} from '@conversation-operator/kube/object';
import { keepsNode, letsNodeGo, presentValues } from '../../resources/pod-disruption.ts';
import {
  isWarmSandbox,
  ownerAnnotation,
  poolLabel,
  poolLabelValue,
  sandboxLabels,
  type Sandbox,
} from '../../resources/sandbox.ts';
import { agentContainerOf, type SandboxTemplate } from '../../resources/sandbox-template.ts';
import type { AgentSide } from './agent-connection.ts';
import {
  javaEnvironment,
  acpWithoutProxy,
  proxyEnvironment,
  type SandboxProxy,
  trustAnnotations,
  trustContainer,
  trustEnvironment,
  trustMount,
  trustStore,
  trustVolumes,
  type SandboxTrust,
} from './outward.ts';

type Container = Wire<V1Container>;

/** Name of the volume that outlives the pod. Every template may mount it. */
export const workspaceVolume = 'workspace';
/** Folder on that volume, below the working directory, for the state of the agent. */
export const agentStateFolder = '.agent';

/** Folder with the git configuration that the starts of conversations write. */
export const gitFolder = `${agentStateFolder}/git`;

/** Name of the port that every pod declares for its agent. */
const agentPortName = 'agent';

/** The pod and the claim of a sandbox have its name, so that no two pods use one volume. */
export const podNameOf = (sandbox: Sandbox): string => sandbox.metadata.name;

/** Merges two lists. An entry of `wins` replaces the entry of `base` with the same key. */
const mergeBy = <T>(key: (entry: T) => string, base: readonly T[], wins: readonly T[]): T[] => {
  const taken = new Set(wins.map(key));
  return [...base.filter((entry) => !taken.has(key(entry))), ...wins];
};

type Variables = NonNullable<Container['env']>;

/**
 * Merges two lists of variables. A reference `$(NAME)` resolves only to an earlier variable.
 * Therefore an entry of `wins` takes the position of the variable that it replaces. New entries
 * with `valueFrom` come first, because others refer to them; all other new ones come last.
 */
function mergeVariables(base: Variables, wins: Variables): Variables {
  const winning = new Map(wins.map((variable) => [variable.name, variable]));
  const replaced = new Set(base.map(({ name }) => name));
  const added = wins.filter(({ name }) => !replaced.has(name));
  return [
    ...added.filter(({ valueFrom }) => valueFrom !== undefined),
    ...base.map((variable) => winning.get(variable.name) ?? variable),
    ...added.filter(({ valueFrom }) => valueFrom === undefined),
  ];
}

/**
 * Makes every shell of the agent read the git configuration in `gitFolder`. Git ignores a missing
 * file. A template that sets its own system configuration keeps it.
 */
const gitEnv = ({ env = [] }: Container, workingDir: string): { name: string; value: string }[] =>
  env.some(({ name }) => name === 'GIT_CONFIG_SYSTEM' || name === 'GIT_CONFIG_NOSYSTEM')
    ? []
    : [{ name: 'GIT_CONFIG_SYSTEM', value: `${workingDir}/${gitFolder}/config` }];

function agentContainer(
  container: Container,
  { sandbox, template, bootstrapKey, callbackUrls, outward }: PodOptions,
): Container {
  const { proxy, trust } = outward;
  const { workingDir } = template.spec.agent;
  const port = agentPortOf(sandbox, template);
  const needs = kindDefinitions[agentKindOf(sandbox, template)].container({
    port,
    workingDir,
    stateDir: `${workingDir}/${agentStateFolder}`,
    bootstrapKey,
    agentName: agentNameOf(sandbox, template),
    acp: acpWithoutProxy(template.spec.agent.acp, { proxy, callbackUrls }),
  });
  // The commands of a conversation's start run in this folder.
  const folder = container.workingDir ?? workingDir;
  const proxies = proxyEnvironment(container, { proxy, callbackUrls });
  return {
    ...container,
    workingDir: folder,
    // Keeps the last output of a crashed agent, because the pod of a failed start is deleted.
    terminationMessagePolicy: container.terminationMessagePolicy ?? 'FallbackToLogsOnError',
    env: mergeVariables(container.env ?? [], [
      ...needs.env,
      ...(callbackUrls.length === 0 ? [] : gitEnv(container, folder)),
      ...proxies,
      ...(trust === undefined ? [] : trustEnvironment(container)),
      ...javaEnvironment(container, { proxies, trustStore: trust && trustStore }),
    ]),
    ports: mergeBy(({ containerPort }) => String(containerPort), container.ports ?? [], [
      { name: agentPortName, containerPort: port },
    ]),
    volumeMounts: mergeBy(({ mountPath }) => mountPath, container.volumeMounts ?? [], [
      { name: workspaceVolume, mountPath: workingDir },
      ...(trust === undefined ? [] : [trustMount]),
    ]),
    startupProbe: container.startupProbe ?? needs.startupProbe,
    readinessProbe: container.readinessProbe ?? needs.readinessProbe,
    livenessProbe: container.livenessProbe ?? needs.livenessProbe,
  };
}

/** Adds the defaults that the Pod Security Standard `restricted` requires of a container. */
const hardened = (container: Container): Container => ({
  ...container,
  securityContext: {
    allowPrivilegeEscalation: false,
    capabilities: { drop: ['ALL'] },
    ...container.securityContext,
  },
});

/** Removes labels or annotations with the prefix that the operator and NetworkPolicies use. */
const unreserved = (entries: Readonly<Record<string, string>> = {}): Record<string, string> =>
  Object.fromEntries(Object.entries(entries).filter(([key]) => !key.startsWith(`${group}/`)));

/** How programs in all sandboxes reach hosts outside the cluster. A template can override this. */
export interface SandboxOutward {
  /** Absent: no proxy. */
  readonly proxy?: SandboxProxy | undefined;
  /** Absent: sandboxes trust only the certificates of their images. */
  readonly trust?: SandboxTrust | undefined;
}

export interface PodSurroundings {
  /** The gateway's server for sandboxes; absent if sandboxes can not reach the gateway. */
  readonly agentSide?: AgentSide | undefined;
  readonly outward?: SandboxOutward | undefined;
}

interface PodOptions {
  readonly sandbox: Sandbox;
  readonly template: SandboxTemplate;
  readonly bootstrapKey: string;
  readonly callbackUrls: readonly string[];
  readonly outward: SandboxOutward;
}

/** The pod of the template, with the agent's volume, port, probes and environment. */
export function buildPod(
  sandbox: Sandbox,
  template: SandboxTemplate,
  { bootstrapKey, agentSide, outward = {} }: PodSurroundings & { readonly bootstrapKey: string },
): NewObject<Pod> {
  const { metadata, spec } = template.spec.podTemplate;
  const agent = agentContainerOf(template);
  const { poolName } = sandbox.spec;
  const { trust } = outward;
  const callbackUrls =
    agentSide?.namespace === sandbox.metadata.namespace
      ? [agentSide.url, agentSide.modelsUrl ?? agentSide.url]
      : [];
  const initContainers = [
    ...(trust === undefined || agent === undefined ? [] : [trustContainer(agent, trust)]),
    ...(spec?.initContainers ?? []),
  ];
  return {
    apiVersion: apiVersionOf(pods),
    kind: pods.kind,
    metadata: {
      name: podNameOf(sandbox),
      namespace: sandbox.metadata.namespace,
      labels: {
        ...unreserved(metadata?.labels),
        ...sandboxLabels(sandbox.metadata.name),
        ...(poolName === undefined ? {} : { [poolLabel]: poolLabelValue(poolName) }),
      },
      annotations: {
        // A new pod gets the annotations of a working agent, except the pod of a warm sandbox.
        ...presentValues(isWarmSandbox(sandbox) ? letsNodeGo : keepsNode),
        ...unreserved(metadata?.annotations),
        [ownerAnnotation]: sandbox.spec.owner,
        ...(trust === undefined ? {} : trustAnnotations(trust)),
      },
      ownerReferences: [ownerReferenceTo(sandbox, { controller: true })],
    },
    spec: {
      enableServiceLinks: false,
      terminationGracePeriodSeconds: 10,
      ...spec,
      // No process in a sandbox may call the API server.
      automountServiceAccountToken: false,
      securityContext: {
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        ...spec?.securityContext,
      },
      restartPolicy: 'Always',
      ...(initContainers.length === 0 ? {} : { initContainers: initContainers.map(hardened) }),
      containers: (spec?.containers ?? []).map((container) =>
        hardened(
          container === agent
            ? agentContainer(container, { sandbox, template, bootstrapKey, callbackUrls, outward })
            : container,
        ),
      ),
      volumes: mergeBy(({ name }) => name, spec?.volumes ?? [], [
        { name: workspaceVolume, persistentVolumeClaim: { claimName: sandbox.metadata.name } },
        ...(trust === undefined ? [] : trustVolumes(trust)),
      ]),
    },
  };
}

const agentPortIn = ({ ports }: CachedContainer): number | undefined =>
  ports?.find(({ name }) => name === agentPortName)?.containerPort;

/** The agent's container in the existing pod, which may differ from the template. */
export const agentContainerOfPod = ({ spec }: CachedPod): CachedContainer | undefined =>
  spec?.containers.find((container) => agentPortIn(container) !== undefined) ??
  spec?.containers.find(({ name }) => name === 'agent') ??
  spec?.containers[0];

/** The agent's port in the existing pod; undefined if the pod declares none. */
export function agentPortOfPod(pod: CachedPod): number | undefined {
  const container = agentContainerOfPod(pod);
  return container === undefined ? undefined : agentPortIn(container);
}
