import {
  persistentVolumeClaims,
  pods,
  type PersistentVolumeClaim,
  type Pod,
} from '@conversation-operator/kube/core';
import { volumeNotBound } from '../../controllers/sandbox/claim.ts';
import { errorOf, FindingCode, NotTried, outcomeOf, type Finding } from './finding.ts';
import { checkPod, observePod } from './check-pod.ts';
import type { Check } from './scene.ts';

/** Time for a claim to be bound: provisioners of clouds take some ten seconds. */
const bindMs = 60_000;
/** Size of the claim; some provisioners make none that is smaller. */
const claimSize = '1Gi';

export interface VolumeFacts {
  readonly namespace: string;
  readonly phase: string | undefined;
  readonly storageClassName: string | undefined;
  /** Message of the scheduler about the pod; undefined: there is none. */
  readonly scheduler: string | undefined;
}

/** Why the scheduler does not place a pod, as it says. */
const schedulerMessage = ({ status }: Pod): string | undefined => {
  const scheduled = status?.conditions?.find(({ type }) => type === 'PodScheduled');
  return scheduled?.status === 'False' ? scheduled.message : undefined;
};

const isAboutVolume = (text: string): boolean =>
  /PersistentVolumeClaim|persistent ?volumes|binding volumes|storageclass/i.test(text);

/**
 * Pure. Returns a reason instead of a finding where the claim is not bound because the pod has no
 * place for another reason.
 */
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
      mend: `kubectl -n ${namespace} get events --field-selector involvedObject.kind=PersistentVolumeClaim # and the log of the provisioner`,
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
        ...{ image, command: ['/bin/true'], pullSecrets, template },
        claim: claim.metadata.name,
      }),
      signal,
    );
    let seen: PersistentVolumeClaim = claim;
    let scheduler: string | undefined;
    await observePod(scene, pod.metadata.name, { forMs: bindMs, signal }, async (current) => {
      scheduler = schedulerMessage(current);
      // The operator's right to claims has no get.
      const { items } = await client.list(persistentVolumeClaims, {
        namespace,
        fieldSelector: `metadata.name=${claim.metadata.name}`,
        signal,
      });
      seen = items[0] ?? seen;
      return seen.status?.phase === 'Bound' ? true : undefined;
    });
    const findings = volumeFindings({
      ...{ namespace, scheduler, phase: seen.status?.phase },
      storageClassName: seen.spec?.storageClassName,
    });
    if (typeof findings === 'string') throw new NotTried(findings);
    return outcomeOf(findings, `a claim of ${claimSize} is bound`);
  },
};
