import { readFileSync } from 'node:fs';
import type { V1Container, V1Volume } from '@kubernetes/client-node';
import type { Wire } from '@conversation-operator/kube/object';
import type { CachedContainerStatus, CachedPod } from '../../resources/cached-core.ts';
import { group } from '../../resources/group.ts';
import { FailureCode, FailurePolicy, type Failure } from './failure.ts';

type Container = Wire<V1Container>;

/** Certificates that sandboxes trust beside those of their images. */
export interface SandboxTrust {
  readonly kind: 'ConfigMap' | 'Secret';
  /** Name in the namespace of the sandbox. The kubelet reads the object; the operator may not. */
  readonly name: string;
  /** Entry with certificates in the PEM format. */
  readonly key: string;
}

/** Name of the container that runs first, and of its volume. */
export const trustName = 'conversation-operator-trust';
const sourceName = `${trustName}-source`;
const folder = '/etc/conversation-operator/trust';
const sourceFolder = '/etc/conversation-operator/trust-source';
const sourceFile = 'ca.crt';
/** Exit code of the program below when the certificates are missing. */
const missing = 78;

const program = readFileSync(new URL('./trust.sh', import.meta.url), 'utf8');

/** File for Java's programs, which read no PEM. Java keeps its own roots where the file is missing. */
export const trustStore = `${folder}/cacerts`;

/** Variables by which programs replace the system's roots by those of a file. */
const replacing = ['SSL_CERT_FILE', 'CURL_CA_BUNDLE', 'GIT_SSL_CAINFO', 'REQUESTS_CA_BUNDLE'];

/** Variables for the programs of the agent, except those that the template has. */
export const trustEnvironment = ({
  env = [],
}: Pick<Container, 'env'>): { name: string; value: string }[] =>
  [
    { name: 'NODE_EXTRA_CA_CERTS', value: `${folder}/added.crt` },
    ...replacing.map((name) => ({ name, value: `${folder}/all.crt` })),
  ].filter(({ name }) => env.every((own) => own.name !== name));

export const trustMount = { name: trustName, mountPath: folder, readOnly: true };

/**
 * The source is optional for the kubelet, which would wait for a missing one for ever and name it
 * in an Event alone; the program ends instead.
 */
export function trustVolumes({ kind, name, key }: SandboxTrust): Wire<V1Volume>[] {
  const items = [{ key, path: sourceFile }];
  const source =
    kind === 'ConfigMap'
      ? { configMap: { name, items, optional: true } }
      : { secret: { secretName: name, items, optional: true } };
  return [
    { name: sourceName, ...source },
    { name: trustName, emptyDir: { sizeLimit: '16Mi' } },
  ];
}

/**
 * The container that runs before all others, with the image, the user and the resources of the
 * agent, so that the pod needs nothing more than without it.
 */
export function trustContainer(
  { image, imagePullPolicy, resources, securityContext }: Container,
  { kind, name, key }: SandboxTrust,
): Container {
  return {
    name: trustName,
    ...(image === undefined ? {} : { image }),
    ...(imagePullPolicy === undefined ? {} : { imagePullPolicy }),
    ...(resources === undefined ? {} : { resources }),
    ...(securityContext === undefined ? {} : { securityContext }),
    command: ['/bin/sh', '-c', program, 'trust'],
    args: [folder, `${sourceFolder}/${sourceFile}`, kind, name, key],
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      { name: trustName, mountPath: folder },
      { name: sourceName, mountPath: sourceFolder, readOnly: true },
    ],
  };
}

/** Annotation of a pod with the object that the container needs: ConfigMap/company-ca/ca.crt. */
const sourceAnnotation = `${group}/trust`;

export const trustAnnotations = ({ kind, name, key }: SandboxTrust) => ({
  [sourceAnnotation]: `${kind}/${name}/${key}`,
});

/** The failure of that container without its certificates; undefined for any other state. */
export function trustFailure(
  { name, state, lastState }: CachedContainerStatus,
  { metadata }: CachedPod,
): Failure | undefined {
  if (name !== trustName) return undefined;
  const ended =
    state?.terminated ??
    (state?.waiting?.reason === 'CrashLoopBackOff' ? lastState?.terminated : undefined);
  if (ended?.exitCode !== missing) return undefined;
  const [kind = '', object = '', key = ''] =
    metadata.annotations?.[sourceAnnotation]?.split('/') ?? [];
  return {
    code: FailureCode.containerConfigError,
    message: `The ${kind} ${object} with the key ${key} does not exist in the sandbox's namespace.`,
    policy: FailurePolicy.environment,
  };
}
