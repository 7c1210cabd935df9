import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { volumeNotBound } from '../../controllers/sandbox/claim.ts';
import {
  errorOf,
  FindingCode,
  NotTried,
  outcomeOf,
  type Finding,
  warningOf,
  type Check,
  withValue,
  type Installation,
} from './check.ts';
import { checkPod, observePod } from './check-pod.ts';
import { type StorageClass, storageClasses } from './resources.ts';

const defaultAnnotations = [
  'storageclass.kubernetes.io/is-default-class',
  'storageclass.beta.kubernetes.io/is-default-class',
];
const isDefault = ({ metadata }: StorageClass): boolean =>
  defaultAnnotations.some((name) => metadata.annotations?.[name] === 'true');

interface StorageFacts extends Installation {
  /** Class that the template names. Undefined: the default class of the cluster. */
  readonly wanted: string | undefined;
  readonly classes: readonly StorageClass[];
}

const breaks = 'The volume of every sandbox stays unbound, and starts end in VolumeNotBound.';

/**
 * Finds the exact cause. The operator lists all causes, as it may not read StorageClasses. Pure.
 */
export function storageClassFindings(facts: StorageFacts): readonly Finding[] {
  const { wanted, classes } = facts;
  const names = classes.map(({ metadata }) => metadata.name);
  const [first] = names;
  const setting = '--set defaultTemplate.storage.storageClassName';
  if (wanted !== undefined && !names.includes(wanted))
    return [
      errorOf(FindingCode.volumeNotBound, {
        cause: `The storage class ${wanted} of the template does not exist; there ${names.length === 0 ? 'is none' : `are: ${names.join(', ')}`}.`,
        breaks,
        remedy: withValue(facts, `${setting}=${first ?? 'CLASS'}`),
      }),
    ];
  const defaults = classes.filter(isDefault);
  if (wanted === undefined && defaults.length === 0)
    return [
      errorOf(FindingCode.volumeNotBound, {
        cause: `The template names no storage class, and the cluster has no default one${names.length === 0 ? '' : ` among ${names.join(', ')}`}.`,
        breaks,
        remedy:
          first === undefined
            ? withValue(facts, `${setting}=CLASS # once a provisioner is installed`)
            : `kubectl annotate storageclass ${first} ${defaultAnnotations[0] ?? ''}=true`,
      }),
    ];
  const used = classes.find((each) =>
    wanted === undefined ? isDefault(each) : each.metadata.name === wanted,
  );
  return [
    ...(wanted === undefined && defaults.length > 1
      ? [
          warningOf(FindingCode.storageClassAmbiguous, {
            cause: `${defaults.length} storage classes are default: ${defaults.map(({ metadata }) => metadata.name).join(', ')}.`,
            breaks: 'Volumes get the newest of them, which may change.',
            remedy: withValue(facts, `${setting}=${defaults[0]?.metadata.name ?? ''}`),
          }),
        ]
      : []),
    ...(used?.provisioner === 'kubernetes.io/no-provisioner'
      ? [
          warningOf(FindingCode.volumeNotBound, {
            cause: `The storage class ${used.metadata.name} makes no volumes (kubernetes.io/no-provisioner).`,
            breaks: 'Each sandbox waits until a person has made a volume for its claim.',
            remedy: withValue(facts, `${setting}=CLASS`),
          }),
        ]
      : []),
  ];
}

export const storageClassCheck: Check = {
  name: 'storage-class',
  limitMs: 15_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const template = await scene.template();
    const { items: classes } = await scene.client.list(storageClasses, { signal });
    const wanted = template.spec.storage.storageClassName;
    const name = wanted ?? classes.find(isDefault)?.metadata.name ?? '';
    return outcomeOf(
      storageClassFindings({ ...scene, wanted, classes }),
      `the class ${name} exists`,
    );
  },
};

/** Maximum time until a claim is bound. Provisioners of clouds may take more than ten seconds. */
const bindMs = 60_000;
/** Size of the claim. Some provisioners refuse smaller volumes. */
const claimSize = '1Gi';

export interface VolumeFacts {
  readonly namespace: string;
  readonly phase: string | undefined;
  readonly storageClassName: string | undefined;
  /** Message of the scheduler about the pod; undefined if there is none. */
  readonly scheduler: string | undefined;
}

const schedulerMessage = ({ status }: Pod): string | undefined => {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' ? scheduled.message : undefined;
};

const isAboutVolume = (text: string): boolean =>
  /PersistentVolumeClaim|persistent ?volumes|binding volumes|storageclass/i.test(text);

/** Returns a reason instead of findings if the volume is not why the pod has no node. Pure. */
export function volumeFindings(facts: VolumeFacts): readonly Finding[] | string {
  const { namespace, phase, storageClassName, scheduler } = facts;
  if (phase === 'Bound') return [];
  if (scheduler !== undefined && !isAboutVolume(scheduler))
    return `the pod that uses the claim has no node: ${scheduler}`;
  const claim = { spec: { ...(storageClassName === undefined ? {} : { storageClassName }) } };
  const { message } = volumeNotBound(claim as Parameters<typeof volumeNotBound>[0]);
  return [
    errorOf(FindingCode.volumeNotBound, {
      cause: `A claim of ${claimSize} is ${phase ?? 'Pending'} after ${bindMs / 1000} s. ${message}${scheduler === undefined ? '' : ` The scheduler says: ${scheduler}`}`,
      breaks: 'Starts end in VolumeNotBound.',
      remedy: `kubectl -n ${namespace} get events --field-selector involvedObject.kind=PersistentVolumeClaim # and the log of the provisioner`,
    }),
  ];
}

export const volumeCheck: Check = {
  name: 'volume',
  limitMs: bindMs + 30_000,
  needsApiServer: true,
  run: async (scene, signal) => {
    const { client, namespace, objects, images } = scene;
    const template = await scene.template();
    const image = images.agent ?? images.operator;
    if (image === undefined) throw new NotTried('name an image by --agent-image or --image');
    const { storageClassName } = template.spec.storage;
    const claim = await objects.create<PersistentVolumeClaim>(
      persistentVolumeClaims,
      {
        spec: {
          accessModes: ['ReadWriteOnce'],
          resources: { requests: { storage: claimSize } },
          ...(storageClassName === undefined ? {} : { storageClassName }),
        },
      },
      signal,
    );
    const pullSecrets = template.spec.podTemplate.spec?.imagePullSecrets ?? [];
    const pod = await objects.create(
      pods,
      checkPod({
        image,
        command: ['/bin/true'],
        pullSecrets,
        template,
        claim: claim.metadata.name,
      }),
      signal,
    );
    let seen: PersistentVolumeClaim = claim;
    let scheduler: string | undefined;
    await observePod(scene, pod.metadata.name, { forMs: bindMs, signal }, async (current) => {
      scheduler = schedulerMessage(current);
      // RBAC allows the operator to list claims, and not to get one.
      const { items } = await client.list(persistentVolumeClaims, {
        namespace,
        fieldSelector: `metadata.name=${claim.metadata.name}`,
        signal,
      });
      seen = items[0] ?? seen;
      return seen.status?.phase === 'Bound' ? true : undefined;
    });
    const findings = volumeFindings({
      namespace,
      scheduler,
      phase: seen.status?.phase,
      storageClassName: seen.spec?.storageClassName,
    });
    if (typeof findings === 'string') throw new NotTried(findings);
    return outcomeOf(findings, `a claim of ${claimSize} is bound`);
  },
};
