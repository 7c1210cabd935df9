import { readFileSync } from 'node:fs';
import type { V1Container, V1Volume } from '@kubernetes/client-node';
import type { Wire } from '@conversation-operator/kube/object';
import type { CachedContainerStatus } from '../../resources/cached-pod.ts';
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
 * in an Event alone; the program reports it.
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
    // The kubelet keeps the sentence of the program.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [
      { name: trustName, mountPath: folder },
      { name: sourceName, mountPath: sourceFolder, readOnly: true },
    ],
  };
}

/** The sentence of the program, and nothing else that an image might write. */
const sentence =
  /^The (ConfigMap|Secret) [a-z0-9.-]{1,253} with the key [\w.-]{1,253} does not exist in the sandbox's namespace\.$/;

/** The failure of that container without its certificates; undefined for any other state. */
export function trustFailure({
  name,
  state,
  lastState,
}: CachedContainerStatus): Failure | undefined {
  if (name !== trustName) return undefined;
  const { exitCode, message = '' } =
    state?.terminated ??
    (state?.waiting?.reason === 'CrashLoopBackOff' ? lastState?.terminated : undefined) ??
    {};
  if (exitCode !== missing) return undefined;
  const said = message.trim();
  return {
    code: FailureCode.containerConfigError,
    message: sentence.test(said)
      ? said
      : 'The ConfigMap or Secret with the certificates that sandboxes trust does not exist.',
    policy: FailurePolicy.environment,
  };
}
