import type { CachedContainerStatus, CachedPod } from '../../resources/cached-core.ts';
import { FailurePolicy, FailureCode, type Failure } from './failure.ts';
import { trustFailure } from './outward.ts';

/** Minimum number of restarts that count as a crash loop. */
const crashLoopRestarts = 3;
/**
 * Minimum duration of a run after which the operator, like the kubelet (twice the maximum back-off
 * in kuberuntime), forgets earlier crashes.
 */
const healthyRunMs = 10 * 60_000;

/** Texts of containerd, CRI-O, docker and registries about transient pull failures. */
const passingPullFailure =
  /toomanyrequests|too many requests|429|5\d\d (internal|bad gateway|service unavailable|gateway)|i\/o timeout|timed? ?out|deadline exceeded|connection re(fused|set)|no such host|temporary failure|server misbehaving|unexpected eof|network is unreachable|no route to host|no space left|qps exceeded/i;

const imagePull = (image: string, policy: FailurePolicy): Failure => ({
  code: FailureCode.imagePullFailed,
  message: `The image ${image} can't be pulled${policy === FailurePolicy.transient ? ' yet' : ''}.`,
  policy,
});

/** The failure CreateContainerConfigError. Only its text shows the cause. */
function configFailure(name: string, text: string): Failure {
  const code = FailureCode.containerConfigError;
  // The kubelet's cache was out of date, and the kubelet retries.
  if (/failed to sync \w+ cache/.test(text))
    return {
      code,
      message: `The node could not read what the container ${name} needs yet.`,
      policy: FailurePolicy.transient,
    };
  if (text.includes('runAsNonRoot'))
    return {
      code,
      message: `The image of the container ${name} does not name a user by number who is not root.`,
      policy: FailurePolicy.template,
    };
  if (/subPath/i.test(text))
    return {
      code,
      message: `A subPath that the container ${name} mounts can't be prepared.`,
      policy: FailurePolicy.template,
    };
  // The node of the cluster of `make run` supports only some fields of a pod.
  if (/ (?:is|are) not supported| supports only | probes are supported$/.test(text))
    return {
      code,
      message: `The container ${name} can't run on this node: ${text}.`,
      policy: FailurePolicy.template,
    };
  const message = `The container ${name} names a Secret, ConfigMap or key that does not exist.`;
  return { code, message, policy: FailurePolicy.environment };
}

function waitingFailure({
  name,
  image,
  restartCount,
  state,
}: CachedContainerStatus): Failure | undefined {
  const { reason, message: text = '' } = state?.waiting ?? {};
  switch (reason) {
    case 'ErrImagePull':
    case 'RegistryUnavailable':
    case 'ImageInspectError':
      return imagePull(image, FailurePolicy.transient);
    case 'ImagePullBackOff':
      return imagePull(
        image,
        passingPullFailure.test(text) ? FailurePolicy.transient : FailurePolicy.environment,
      );
    case 'ErrImageNeverPull':
    case 'SignatureValidationFailed':
      return imagePull(image, FailurePolicy.environment);
    case 'InvalidImageName':
      return imagePull(image, FailurePolicy.template);
    case 'CreateContainerConfigError':
      return configFailure(name, text);
    case 'CreateContainerError':
    case 'RunContainerError':
    case 'PreCreateHookError':
    case 'PreStartHookError':
    case 'PostStartHookError':
      return startFailure(name, restartCount >= crashLoopRestarts);
    default:
      return undefined;
  }
}

const startFailure = (name: string, loops: boolean): Failure => ({
  code: FailureCode.containerStartFailed,
  message: `The container ${name} can't be started.`,
  policy: loops ? FailurePolicy.template : FailurePolicy.transient,
});

const sigkillExitCode = 137;

function crashFailure(
  { name, restartCount, state, lastState }: CachedContainerStatus,
  mayEnd: boolean,
): Failure | undefined {
  const ended =
    state?.terminated ??
    (state?.waiting?.reason === 'CrashLoopBackOff' ? lastState?.terminated : undefined);
  if (ended === undefined || restartCount === 0 || (mayEnd && ended.exitCode === 0))
    return undefined;
  const ranMs = Date.parse(ended.finishedAt ?? '') - Date.parse(ended.startedAt ?? '');
  const loops = restartCount >= crashLoopRestarts && !(ranMs >= healthyRunMs);
  const policy = loops ? FailurePolicy.permanent : FailurePolicy.transient;
  switch (ended.reason) {
    case 'OOMKilled':
      return {
        code: FailureCode.outOfMemory,
        message: `The container ${name} ran out of memory ${restartCount} times.`,
        policy,
      };
    // The runtime could not start the container: no such command or user, or a failed mount.
    case 'StartError':
    case 'ContainerCannotRun':
      return startFailure(name, loops);
    default: {
      // containerd may miss an OOM kill, and then reports the reason "Error".
      const cause = ended.exitCode === sigkillExitCode ? ' (killed, maybe for lack of memory)' : '';
      const message = `The container ${name} ended ${restartCount === 1 ? 'once' : `${restartCount} times, the last time`} with exit code ${ended.exitCode}${cause}.`;
      return { code: FailureCode.crashLoop, message, policy };
    }
  }
}

const maxNamedGates = 3;

/** The failure of a pod that is not scheduled until its scheduling gates are removed. */
function gated(gates: readonly { readonly name: string }[]): Failure {
  const names = gates.slice(0, maxNamedGates).map(({ name }) => name);
  const more = gates.length > maxNamedGates ? ' and others' : '';
  const several = gates.length > 1;
  const which =
    names.length === 0
      ? 'a scheduling gate'
      : `the scheduling gate${several ? 's' : ''} ${names.join(', ')}${more}`;
  return {
    code: FailureCode.schedulingGated,
    message: `The pod of the sandbox waits at ${which}. The queue or controller that has set ${several ? 'them' : 'it'}, such as Kueue, has to admit the pod.`,
    policy: FailurePolicy.waiting,
  };
}

/** The failure of a pod that waits for a node which an autoscaler has announced. */
export const nodeBeingAdded: Failure = {
  code: FailureCode.nodeBeingAdded,
  message:
    "No node has room for the sandbox, and the cluster's autoscaler is adding one. The sandbox waits until the node has joined the cluster.",
  policy: FailurePolicy.waiting,
};

function schedulingFailure({ spec, status, metadata }: CachedPod): Failure | undefined {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  if (scheduled?.status !== 'False' || metadata.deletionTimestamp !== undefined) return undefined;
  if (scheduled.reason === 'SchedulingGated') return gated(spec?.schedulingGates ?? []);
  const text = scheduled.message ?? '';
  const failure = (code: FailureCode, message: string): Failure => ({
    code,
    message,
    policy: FailurePolicy.transient,
  });
  // The scheduler reports all of these with one reason, so only the text distinguishes them.
  if (
    /PersistentVolumeClaim|find available persistent volumes|binding volumes|non-existent pv/i.test(
      text,
    )
  )
    return failure(FailureCode.volumeNotBound, 'The volume of the sandbox is not bound yet.');
  const { unschedulable } = FailureCode;
  if (scheduled.reason !== 'Unschedulable') return undefined;
  return failure(
    unschedulable,
    /volume node affinity|PersistentVolume's node affinity/.test(text)
      ? 'No node that can reach its volume has room for the sandbox at the moment.'
      : 'No node has room for the sandbox at the moment.',
  );
}

/**
 * Whether the node of a pod is unreachable. The node controller then sets only Ready to False. If a
 * kubelet sets Ready to False, a container is unready or a readiness gate is unmet.
 */
export function isOnLostNode({ spec, status }: CachedPod): boolean {
  const statusOf = (name: string) => status?.conditions?.find(({ type }) => type === name)?.status;
  return (
    (spec?.readinessGates ?? []).length === 0 &&
    statusOf('Ready') === 'False' &&
    statusOf('ContainersReady') === 'True'
  );
}

export const nodeLost = (message: string): Failure => ({
  code: FailureCode.nodeLost,
  message,
  policy: FailurePolicy.transient,
});

/** The failure of a pod that does not start; undefined if none is visible. */
export function podFailure(pod: CachedPod): Failure | undefined {
  // An ended pod has a reason of its own, so the states of its containers do not matter.
  if (pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded') return undefined;
  if (isOnLostNode(pod))
    return nodeLost(
      'The node of the sandbox does not answer; the sandbox continues when the node is back, or is replaced.',
    );
  // Init containers have to end, except sidecars.
  const sidecars = new Set(
    (pod.spec?.initContainers ?? []).flatMap(({ name, restartPolicy }) =>
      restartPolicy === 'Always' ? [name] : [],
    ),
  );
  const initial = pod.status?.initContainerStatuses ?? [];
  const failures = [...initial, ...(pod.status?.containerStatuses ?? [])].flatMap((status) => {
    const mayEnd = initial.includes(status) && !sidecars.has(status.name);
    return (
      trustFailure(status, pod) ?? waitingFailure(status) ?? crashFailure(status, mayEnd) ?? []
    );
  });
  return (
    failures.find(({ policy }) => policy !== FailurePolicy.transient) ??
    failures[0] ??
    schedulingFailure(pod)
  );
}

/** The last output of a crashing container, if `terminationMessagePolicy` keeps it. */
export function lastOutputOf({ status }: CachedPod): string | undefined {
  const crashed = [
    ...(status?.initContainerStatuses ?? []),
    ...(status?.containerStatuses ?? []),
  ].flatMap(({ restartCount, state, lastState }) =>
    restartCount === 0 ? [] : (state?.terminated ?? lastState?.terminated ?? []),
  );
  return crashed.find(({ exitCode, message = '' }) => exitCode !== 0 && message !== '')?.message;
}
