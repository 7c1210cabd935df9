import type { KubeClient } from '@conversation-operator/kube/client';
import { ApiError, TransportError, isForbidden } from '@conversation-operator/kube/errors';
import { InterceptedClient, type ClientCall } from '@conversation-operator/kube/intercepted-client';
import { KubeconfigError, loadConnection } from '@conversation-operator/kube/kubeconfig';
import { silentLogger } from '@conversation-operator/base/logger';
import { connect, createRuntime } from '../commands/process.ts';
import { CommandError } from '../commands/terminal.ts';
import { ProblemError } from '../gateway/errors/problem-error.ts';
import { group } from '../resources/group.ts';
import type { Output } from './terminal.ts';

export interface PluginOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace?: string;
  readonly allNamespaces?: boolean;
  readonly owner?: string;
  readonly output?: Output;
  /** URL of the gateway. */
  readonly server?: string;
}

export interface Cluster {
  readonly client: KubeClient;
  /** '' for all namespaces, where the command lists those. */
  readonly namespace: string;
  readonly context: string;
}

/** Runs `work` with the rights of the person. Throws `CommandError` with an explanation. */
export async function withCluster<T>(
  options: PluginOptions,
  work: (cluster: Cluster) => Promise<T>,
): Promise<T> {
  const { kubeconfig, context, namespace } = options;
  let loaded;
  try {
    loaded = await loadConnection({
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    });
  } catch (error) {
    throw error instanceof KubeconfigError
      ? new CommandError(error.message, { cause: error })
      : error;
  }
  const { client, transport } = connect(loaded.connection, createRuntime(silentLogger));
  const calls = new WeakMap<object, ClientCall>();
  const noted = new InterceptedClient(client, async (call, _options, run) => {
    try {
      return await run();
    } catch (error) {
      if (isForbidden(error)) calls.set(error, call);
      throw error;
    }
  });
  const place = options.allNamespaces === true ? '' : (namespace ?? loaded.namespace);
  try {
    return await work({ client: noted, namespace: place, context: loaded.context });
  } catch (error) {
    const call = error instanceof ApiError ? calls.get(error) : undefined;
    throw inWords(error, { server: loaded.connection.server, namespace: place, call });
  } finally {
    await transport.close();
  }
}

interface Where {
  readonly server: string;
  readonly namespace: string;
  readonly call: ClientCall | undefined;
}

const inNamespace = (namespace: string): string =>
  namespace === '' ? 'in all namespaces' : `in the namespace ${namespace}`;

/** The right that a refused call needs, as `kubectl auth can-i` names it. */
export const missingRight = ({ verb, plural, name }: ClientCall, namespace: string): string =>
  `${verb} ${plural}${name === undefined ? '' : ` (${name})`} ${inNamespace(namespace)}`;

/** An error in words for a person; other errors are mistakes of the program, and stay. */
export function inWords(error: unknown, { server, namespace, call }: Where): unknown {
  const explained = (text: string) => new CommandError(text, { cause: error });
  if (error instanceof ProblemError) {
    const [first] = error.errors ?? [];
    return explained(
      first === undefined ? error.message : `${fieldName(first.path)} ${first.message}`,
    );
  }
  if (error instanceof TransportError)
    return explained(`No answer from the cluster at ${server}: ${error.message}`);
  if (!(error instanceof ApiError)) return error;
  if (error.status === 401)
    return explained(`The cluster at ${server} does not accept your credentials: ${error.message}`);
  if (error.status === 403)
    return explained(
      call === undefined
        ? `The cluster refuses: ${error.message}`
        : `You may not ${missingRight(call, namespace)}. The cluster says: ${error.message}`,
    );
  if (error.status === 404 && call === undefined && isUnknownKind(error))
    return explained(
      `The cluster at ${server} has no kinds of ${group}: conversation-operator is not installed there`,
    );
  return explained(`The cluster refuses: ${error.message}`);
}

/** The option or argument of a field of REST. */
const fieldName = (path: string): string =>
  path.startsWith('body.option_id')
    ? '--option'
    : path.startsWith('body.content')
      ? 'The message'
      : path;

const isUnknownKind = ({ message }: ApiError): boolean =>
  /page not found|could not find the requested resource|answered 404/.test(message);
