import { pods, type Pod } from '@conversation-operator/kube/core';
import { podFailure } from '../../controllers/sandbox/pod-failure.ts';
import { FailureCode } from '../../controllers/sandbox/failure.ts';
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
import { checkPod, observePod } from './check-pod.ts';
import { oneLine } from '../terminal.ts';

const pullMs = 90_000;

export type ImageName = 'image' | 'defaultTemplate.image';

/** State of the image of a pod's first container. */
export type Pull =
  | { readonly kind: 'pulled' }
  | { readonly kind: 'failed'; readonly message: string }
  | { readonly kind: 'held'; readonly message: string };

/** Failures of a container that can only follow the pull of its image. */
const afterPull: ReadonlySet<string> = new Set([
  FailureCode.containerConfigError,
  FailureCode.containerStartFailed,
]);

/** State of the image according to the pod's status; undefined while unknown. Pure function. */
export function pullOf(pod: Pick<Pod, 'metadata' | 'status' | 'spec'>): Pull | undefined {
  const [container] = pod.status?.containerStatuses ?? [];
  const { waiting } = container?.state ?? {};
  // `podFailure`, as in the operator, handles the different reasons of kubelet versions.
  const failure = podFailure(pod as Pod);
  if (failure?.code === FailureCode.imagePullFailed)
    return { kind: 'failed', message: waiting?.message ?? waiting?.reason ?? failure.message };
  const hasImage =
    (container?.imageID ?? '') !== '' ||
    (failure !== undefined && afterPull.has(failure.code)) ||
    container?.state?.running !== undefined ||
    container?.state?.terminated !== undefined;
  if (hasImage) return { kind: 'pulled' };
  return failure === undefined ? undefined : { kind: 'held', message: failure.message };
}

export interface PulledImage {
  readonly name: ImageName;
  readonly image: string;
  readonly message: string | undefined;
}

export const imageFindings = (
  images: readonly PulledImage[],
  facts: Installation & { readonly namespace: string },
): readonly Finding[] =>
  images.flatMap(({ name, image, message }) => {
    if (message === undefined) return [];
    const isDenied = /401|403|unauthorized|denied|authentication/i.test(message);
    const secrets = `--set-json '${name}.pullSecrets=[{"name":"registry"}]'`;
    return [
      errorOf(FindingCode.imagePullFailed, {
        cause: `The image ${image} can't be pulled: ${oneLine(message)}`,
        breaks:
          name === 'image'
            ? 'The operator and the gateway do not start.'
            : 'Starts end in ImagePullFailed.',
        remedy: isDenied
          ? withValue(facts, secrets)
          : withValue(facts, `--set ${name}.repository=REGISTRY/NAME --set ${name}.tag=TAG`),
      }),
    ];
  });

async function pull(
  scene: Scene,
  { name, image }: Pick<PulledImage, 'name' | 'image'>,
  signal: AbortSignal,
): Promise<PulledImage> {
  const template = await scene.template();
  const pullSecrets =
    name === 'image'
      ? scene.images.pullSecrets.map((secret) => ({ name: secret }))
      : (template.spec.podTemplate.spec?.imagePullSecrets ?? []);
  // Only the pull is tested. The image need not contain this program.
  const body = checkPod({ image, command: ['/bin/true'], pullSecrets, template });
  const { metadata } = await scene.objects.create(pods, body, signal);
  let held: string | undefined;
  const end = await observePod(scene, metadata.name, { forMs: pullMs, signal }, (pod) => {
    const state = pullOf(pod);
    held = state?.kind === 'held' ? state.message : undefined;
    return state?.kind === 'held' ? undefined : state;
  });
  if (end === undefined)
    throw new NotTried(
      `${image}: ${held ?? `the pod of the check has not reached its image within ${pullMs / 1000} s`}`,
    );
  return { name, image, message: end.kind === 'failed' ? end.message : undefined };
}

export const imagesCheck: Check = {
  name: 'images',
  limitMs: pullMs + 30_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const { operator, agent, runsOperator } = scene.images;
    const wanted = [
      ...(runsOperator ? [] : [{ name: 'image', image: operator, option: '--image' } as const]),
      { name: 'defaultTemplate.image', image: agent, option: '--agent-image' },
    ] as const;
    const notTried: string[] = [];
    const ends = await Promise.allSettled(
      wanted.flatMap(({ name, image, option }) => {
        if (image !== undefined) return [pull(scene, { name, image }, signal)];
        notTried.push(`${name}: name it by ${option}`);
        return [];
      }),
    );
    const pulled = ends.flatMap((end) => {
      if (end.status === 'fulfilled') return [end.value];
      if (!(end.reason instanceof NotTried)) throw end.reason;
      notTried.push(end.reason.message);
      return [];
    });
    if (pulled.length === 0) throw new NotTried(notTried.join('; '));
    return outcomeOf(
      imageFindings(pulled, scene),
      `pulled: ${pulled.map(({ image }) => image).join(', ')}`,
      notTried,
    );
  },
};
