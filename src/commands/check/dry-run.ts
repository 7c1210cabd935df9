import type { KubeClient } from '@conversation-operator/kube/client';
import { isNotFound } from '@conversation-operator/kube/errors';
import { persistentVolumeClaims, pods } from '@conversation-operator/kube/core';
import type { ObjectMeta } from '@conversation-operator/kube/object';
import { buildClaim } from '../../controllers/sandbox/claim.ts';
import {
  createErrorOf,
  type CreatedKind,
  type CreateError,
} from '../../controllers/sandbox/create-error.ts';
import { FailureCode } from '../../controllers/sandbox/failure.ts';
import { buildPod, type SandboxOutward } from '../../controllers/sandbox/pod.ts';
import { apiVersion } from '../../resources/group.ts';
import { sandboxes, type Sandbox } from '../../resources/sandbox.ts';
import {
  type SandboxTemplate,
  defaultTemplateName,
  sandboxTemplates,
} from '../../resources/sandbox-template.ts';
import { errorOf, noNamespace, NotTried, type Finding, type DryRun } from './check.ts';
import { oneLine } from '../terminal.ts';

/** A Sandbox that is never stored, for building a pod and a claim. */
export const specimenOf = (template: SandboxTemplate): Sandbox => ({
  apiVersion,
  kind: sandboxes.kind,
  metadata: { ...template.metadata, name: 'check-dry-run' },
  spec: { owner: 'check', templateName: template.metadata.name, replicas: 1 },
});

/** Removes the owner references. Admission may look up their Sandbox, which does not exist. */
const ownerless = <T extends { readonly metadata: Partial<ObjectMeta> }>(object: T) => {
  const { ownerReferences: _, ...metadata } = object.metadata;
  return { ...object, metadata };
};

/** The pod and the claim that the operator creates for a sandbox of the template. */
export const sandboxObjectsOf = (template: SandboxTemplate, outward: SandboxOutward) => ({
  pod: ownerless(buildPod(specimenOf(template), template, { bootstrapKey: 'dry-run', outward })),
  claim: ownerless(buildClaim(specimenOf(template), template)),
});

/** Sends pod and claim as a dry run. Throws `NotTried` without the right or the namespace. */
export async function dryRunOf(
  client: KubeClient,
  { template, outward }: { readonly template: SandboxTemplate; readonly outward: SandboxOutward },
  signal: AbortSignal,
): Promise<DryRun> {
  const objects = sandboxObjectsOf(template, outward);
  const errors: CreateError[] = [];
  const tried = async <T>(what: CreatedKind, create: () => Promise<T>): Promise<T | undefined> => {
    try {
      return await create();
    } catch (error) {
      if (isNotFound(error)) throw new NotTried(noNamespace(template.metadata.namespace));
      const refusal = createErrorOf(error, what);
      if (refusal === undefined) throw error;
      if (refusal.code === FailureCode.permissionDenied)
        throw new NotTried(`no right: ${refusal.serverMessage}`);
      errors.push(refusal);
      return undefined;
    }
  };
  const options = { dryRun: true, signal };
  const pod = await tried('pod', () => client.create(pods, objects.pod, options));
  const claim = await tried('volume', () =>
    client.create(persistentVolumeClaims, objects.claim, options),
  );
  return {
    sent: objects.pod,
    errors,
    ...(pod === undefined ? {} : { pod }),
    ...(claim === undefined ? {} : { claim }),
  };
}

/** Consequence for a conversation's start: it waits if `code` is a full quota, else it fails. */
export const breaksOf = (code: FailureCode): string =>
  code === FailureCode.resourceQuotaExceeded
    ? `Starts wait, with the reason ${code}, until there is room.`
    : `Starts end in ${code}.`;

export const refusalFinding = (
  { code, message, serverMessage }: CreateError,
  remedy: string,
): Finding =>
  errorOf(code, {
    cause: `${message} The API server says: ${oneLine(serverMessage)}`,
    breaks: breaksOf(code),
    remedy,
  });

interface PlannedTemplate {
  readonly namespace: string;
  readonly image: string;
  /** Absent: the default class of the cluster. */
  readonly storageClass?: string | undefined;
  readonly runtimeClass?: string | undefined;
}

/** The template that the chart creates by default. A test compares this template with the chart. */
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
