import { arrayAt, stringAt } from '../json/json.ts';
import type { ApiObject } from './api-object.ts';
import type { PlaneResponse } from './request.ts';
import { badRequest, StatusError } from './status-error.ts';

export interface PodLogOptions {
  readonly follow: boolean;
  readonly tailLines?: number;
  readonly previous: boolean;
  readonly signal: AbortSignal;
}

/** Reader of container logs; `open` returns undefined for a container without a log. */
export interface PodLogs {
  open(
    podUid: string,
    containerName: string,
    options: PodLogOptions,
  ): AsyncIterable<Uint8Array> | undefined;
}

function containerOf(pod: ApiObject, wanted: string | null): string {
  const names = [
    ...arrayAt(pod['spec'], 'containers'),
    ...arrayAt(pod['spec'], 'initContainers'),
  ].map((container) => stringAt(container, 'name') ?? '');
  if (wanted !== null && wanted !== '') {
    if (!names.includes(wanted))
      throw badRequest(`container ${wanted} is not valid for pod ${pod.metadata.name}`);
    return wanted;
  }
  const [only, ...others] = names;
  if (others.length > 0)
    throw badRequest(
      `a container name must be specified for pod ${pod.metadata.name}, choose one of: [${names.join(' ')}]`,
    );
  return only ?? '';
}

export function logResponse(
  pod: ApiObject,
  query: URLSearchParams,
  { logs, signal }: { readonly logs: PodLogs | undefined; readonly signal: AbortSignal },
): PlaneResponse {
  const container = containerOf(pod, query.get('container'));
  const tail = query.get('tailLines');
  if (tail !== null && !/^\d+$/.test(tail))
    throw badRequest(
      `invalid tailLines ${JSON.stringify(tail)}: must be greater than or equal to 0`,
    );
  const previous = query.get('previous') === 'true';
  const stream = logs?.open(pod.metadata.uid, container, {
    follow: query.get('follow') === 'true',
    previous,
    ...(tail === null ? {} : { tailLines: Number(tail) }),
    signal,
  });
  if (stream === undefined) {
    // A pod without a node has no kubelet and thus no log.
    if (stringAt(pod['spec'], 'nodeName') === undefined)
      return { status: 204, headers: {}, body: '' };
    throw new StatusError(
      400,
      'BadRequest',
      previous
        ? `previous terminated container ${JSON.stringify(container)} in pod ${JSON.stringify(pod.metadata.name)} not found`
        : `container ${JSON.stringify(container)} in pod ${JSON.stringify(pod.metadata.name)} is waiting to start`,
    );
  }
  return { status: 200, headers: { 'content-type': 'text/plain' }, body: stream };
}
