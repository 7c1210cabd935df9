import { pods, type Pod } from '@conversation-operator/kube/core';
import { FailureCode } from '../../controllers/sandbox/failure.ts';
import { podFailure } from '../../controllers/sandbox/pod-failure.ts';
import {
  trustAnnotations,
  trustFailure,
  trustName,
  trustVolumes,
  type SandboxTrust,
} from '../../controllers/sandbox/outward.ts';
import { checkPod, observePod } from './check-pod.ts';
import { sandboxObjectsOf } from './dry-run.ts';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  type Finding,
  withValue,
  type Check,
  type Installation,
  type Scene,
} from './check.ts';
import { oneLine } from '../terminal.ts';

/** Maximum time for the container that prepares the certificates, with the pull of its image. */
const prepareMs = 90_000;

/** Result of the init container that prepares a sandbox's certificates. */
export type TrustState =
  | { readonly kind: 'prepared' }
  | { readonly kind: 'missing' | 'failed'; readonly code: FailureCode; readonly message: string }
  | { readonly kind: 'held'; readonly message: string };

/** Result of the init container according to the pod's status; undefined while it has none. */
export function trustStateOf(pod: Pod, trust: SandboxTrust): TrustState | undefined {
  // `trustFailure` reads the source of the certificates from an annotation.
  const annotations = trustAnnotations(trust);
  const marked = { ...pod, metadata: { ...pod.metadata, annotations } };
  const status = pod.status?.initContainerStatuses?.find(({ name }) => name === trustName);
  const missing = status === undefined ? undefined : trustFailure(status, marked);
  if (missing !== undefined)
    return { kind: 'missing', code: missing.code, message: missing.message };
  const ended = status?.state?.terminated;
  if (ended?.exitCode === 0) return { kind: 'prepared' };
  if (ended !== undefined) {
    const cannotStart = ended.reason === 'StartError' || ended.reason === 'ContainerCannotRun';
    const output = oneLine(ended.message ?? '');
    return {
      kind: 'failed',
      code: cannotStart ? FailureCode.containerStartFailed : FailureCode.crashLoop,
      message: `The container ${trustName} ends with exit code ${ended.exitCode}${output === '' ? '.' : `: ${output}`}`,
    };
  }
  const failure = podFailure(marked);
  if (failure === undefined) return undefined;
  const { code, message } = failure;
  return code === FailureCode.containerStartFailed
    ? { kind: 'failed', code, message }
    : { kind: 'held', message };
}

/** Shell command that creates the ConfigMap or Secret, or adds the entry to an existing one. */
function creationOf({ kind, name, key }: SandboxTrust, namespace: string): string {
  const what = kind === 'ConfigMap' ? 'configmap' : 'secret generic';
  const create = `kubectl -n ${namespace} create ${what} ${name} --from-file=${key}=company-ca.pem`;
  return `${create} --dry-run=client -o yaml | kubectl -n ${namespace} apply -f -`;
}

export interface TrustFacts extends Installation {
  readonly namespace: string;
  readonly trust: SandboxTrust;
}

export function trustFindings(state: TrustState, facts: TrustFacts): readonly Finding[] {
  const { namespace, trust } = facts;
  if (state.kind === 'prepared' || state.kind === 'held') return [];
  const { code, message } = state;
  return [
    errorOf(code, {
      cause: message.replace("the sandbox's namespace", `the namespace ${namespace}`),
      breaks: `Starts end in ${code}.`,
      remedy:
        state.kind === 'missing'
          ? creationOf(trust, namespace)
          : `${withValue(facts, '--set defaultTemplate.image.repository=REGISTRY/NAME --set defaultTemplate.image.tag=TAG')} # the image needs /bin/sh and cat`,
    }),
  ];
}

/** Findings about the certificates that the operator and the gateway trust. Pure. */
export function trustFileFindings({
  trustFileFailure,
  releaseNamespace,
  sandboxOutward: { trust },
}: Pick<Scene, 'trustFileFailure' | 'releaseNamespace' | 'sandboxOutward'>): readonly Finding[] {
  if (trustFileFailure === undefined) return [];
  return [
    errorOf(FindingCode.certificateUntrusted, {
      cause: `${trustFileFailure}.`,
      breaks: 'The operator and the gateway do not start.',
      remedy:
        trust === undefined
          ? 'openssl x509 -noout -subject -in "$TRUST_FILE" # shows the first certificate of such a file'
          : creationOf(trust, releaseNamespace),
    }),
  ];
}

/** Runs the init container that prepares the certificates of a sandbox, in a pod of the check. */
async function prepare(scene: Scene, trust: SandboxTrust, signal: AbortSignal) {
  const { images, objects, sandboxOutward } = scene;
  const { agent: image } = images;
  if (image === undefined) throw new NotTried('defaultTemplate.image: name it by --agent-image');
  const template = await scene.template();
  const { pod } = sandboxObjectsOf(template, sandboxOutward);
  const first = pod.spec?.initContainers?.find(({ name }) => name === trustName);
  if (first === undefined) throw new NotTried('the template has no container for the agent');
  const { metadata } = await objects.create(
    pods,
    checkPod({
      image,
      template,
      command: ['/bin/true'],
      pullSecrets: template.spec.podTemplate.spec?.imagePullSecrets ?? [],
      initContainers: [{ ...first, image }],
      volumes: trustVolumes(trust),
    }),
    signal,
  );
  let held: string | undefined;
  const state = await observePod(scene, metadata.name, { forMs: prepareMs, signal }, (current) => {
    const seen = trustStateOf(current, trust);
    held = seen?.kind === 'held' ? seen.message : undefined;
    return seen?.kind === 'held' ? undefined : seen;
  });
  if (state === undefined)
    throw new NotTried(
      held ?? `the pod of the check has no certificates after ${prepareMs / 1000} s`,
    );
  return state;
}

export const trustCheck: Check = {
  name: 'trust',
  limitMs: prepareMs + 30_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const { trust } = scene.sandboxOutward;
    if (trust === undefined) return outcomeOf([], 'no certificates are set for sandboxes');
    const state = await prepare(scene, trust, signal);
    return outcomeOf(
      trustFindings(state, { ...scene, trust }),
      `a pod reads ${trust.key} of the ${trust.kind} ${trust.name}`,
    );
  },
};
