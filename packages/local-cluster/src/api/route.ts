import { type OpenApi, discoveryResponse } from '../discovery/discovery.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import type { PlaneContext } from './context.ts';
import { logResponse } from './pod-logs.ts';
import { bind, type ResourceRequest } from './resource-handler.ts';
import {
  parseResourcePath,
  type PlaneRequest,
  type PlaneResponse,
  type ResourcePath,
  jsonResponse,
  textResponse,
} from './request.ts';
import * as handler from './resource-handler.ts';
import { badRequest, methodNotAllowed, noSuchResource } from './status-error.ts';

type Handler = (scope: ResourceRequest) => PlaneResponse;
type Methods = Readonly<Record<string, Handler>>;

const collection: Methods = { GET: handler.list, POST: handler.create };
const object: Methods = {
  GET: handler.read,
  PUT: handler.replace,
  PATCH: handler.patch,
  DELETE: handler.remove,
};
const status: Methods = { GET: handler.read, PUT: handler.replace, PATCH: handler.patch };
const scale: Methods = { GET: handler.scale, PUT: handler.scale, PATCH: handler.scale };

const podParts: Readonly<Record<string, Methods>> = {
  binding: { POST: bind },
  log: {
    GET: ({ context, resource, path, query, request }) =>
      logResponse(context.writer.get(resource, path.namespace, path.name ?? ''), query, {
        logs: context.podLogs,
        signal: request.signal ?? new AbortController().signal,
      }),
  },
};

function methodsFor(
  resource: ApiResource,
  { name, subresource }: ResourcePath,
): Methods | undefined {
  if (name === undefined) return collection;
  switch (subresource) {
    case undefined:
      return object;
    case 'status':
      return resource.hasStatus ? status : undefined;
    case 'scale':
      return resource.scale === undefined ? undefined : scale;
    default:
      return resource.key === '/pods' ? podParts[subresource] : undefined;
  }
}

/** Version of the server, by which clients detect its features. */
const version = {
  major: '1',
  minor: '34',
  gitVersion: 'v1.34.0+embedded',
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: '',
  compiler: '',
  platform: `${process.platform}/${process.arch === 'x64' ? 'amd64' : process.arch}`,
};

const fixedPaths: Readonly<Record<string, () => PlaneResponse>> = {
  '/version': () => jsonResponse(200, version),
  '/healthz': () => textResponse(200, 'ok'),
  '/readyz': () => textResponse(200, 'ok'),
  '/livez': () => textResponse(200, 'ok'),
};

const emptyQuery = new URLSearchParams();

/** Answers a request within the current turn of the event loop. @throws StatusError */
export function route(
  context: PlaneContext,
  openApi: OpenApi,
  request: PlaneRequest,
): PlaneResponse {
  const path = request.path.length > 1 ? request.path.replace(/\/+$/, '') : request.path;
  const other =
    request.method === 'GET'
      ? (fixedPaths[path]?.() ??
        openApi.respond(path) ??
        discoveryResponse(path, request.headers?.['accept'], context.registry))
      : undefined;
  return other ?? resourceResponse(context, path, request);
}

function parsedPath(path: string): ResourcePath {
  try {
    const parsed = parseResourcePath(path);
    if (parsed !== undefined) return parsed;
  } catch {
    throw badRequest('the path is not valid percent-encoding');
  }
  throw noSuchResource();
}

function resourceResponse(
  context: PlaneContext,
  path: string,
  request: PlaneRequest,
): PlaneResponse {
  const parsed = parsedPath(path);
  const resource = context.registry.find(parsed.group, parsed.version, parsed.plural);
  const query = request.query ?? emptyQuery;
  if (resource === undefined) return unknownKind(context, parsed);
  if (!isAddressed(resource, parsed)) throw noSuchResource();
  const methods = methodsFor(resource, parsed);
  if (methods === undefined) throw noSuchResource();
  const handle = methods[request.method];
  if (handle === undefined) throw methodNotAllowed();
  const warnings: string[] = [];
  const response = handle({ context, request, resource, path: parsed, query, warnings });
  return warnings.length === 0
    ? response
    : { ...response, headers: { ...response.headers, warning: warnings.map(warning).join(', ') } };
}

/** Like Kubernetes, sends a Status if the group is served, and a plain text for other paths. */
function unknownKind({ registry }: PlaneContext, { group, version }: ResourcePath): PlaneResponse {
  const served = registry
    .all()
    .some(
      (resource) => resource.builtin && resource.group === group && resource.version === version,
    );
  if (served) throw noSuchResource();
  return textResponse(404, '404 page not found\n');
}

/** Whether the path fits the kind: namespaced objects have a namespace, and other kinds do not. */
const isAddressed = (resource: ApiResource, { namespace, name }: ResourcePath): boolean =>
  resource.namespaced ? namespace !== undefined || name === undefined : namespace === undefined;

/** Formats a warning (RFC 7234 §5.5) as Kubernetes does, with `?` for all but printable ASCII. */
const warning = (text: string): string =>
  `299 - ${JSON.stringify(text).replaceAll(/[^\x20-\x7e]/g, '?')}`;
