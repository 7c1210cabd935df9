import { parseVersion, listPage, selectionOf } from './selection.ts';
import { negotiatedSerializer, negotiate } from './serializer.ts';
import type { ApiResource } from '../registry/api-resource.ts';
import { isObject, objectAt, stringAt, type Json, type JsonObject, arrayAt } from '../json/json.ts';
import type { ApiObject } from './api-object.ts';
import { scaleOf, withScale, type Part, checkUid } from './object-writer.ts';
import type { PlaneContext } from './context.ts';
import {
  decode,
  unknownFields,
  deleteOptions,
  isTrue,
  validationOf,
  writeOptions,
} from './decode.ts';
import { parseJson, patched } from './patch.ts';
import {
  type PlaneRequest,
  type PlaneResponse,
  type ResourcePath,
  deletedStatus,
  jsonResponse,
} from './request.ts';
import {
  badRequest,
  invalid,
  methodNotAllowed,
  unsupportedMediaType,
  conflict,
} from './status-error.ts';
import { invalidValue } from '../schema/field-error.ts';
import { timestampOf } from '@conversation-operator/kube/object';

export interface ResourceRequest {
  readonly context: PlaneContext;
  readonly request: PlaneRequest;
  readonly resource: ApiResource;
  readonly path: ResourcePath;
  readonly query: URLSearchParams;
  readonly warnings: string[];
}

const maxWatchMs = 3_600_000;
const minWatchSeconds = 1800;

const contentTypeOf = ({ headers }: PlaneRequest): string =>
  headers?.['content-type']?.split(';')[0]?.trim() ?? '';

export function bodyOf({ request }: ResourceRequest): Json {
  const type = contentTypeOf(request);
  if (type === '' || type === 'application/json') return parseJson(request.body ?? '');
  throw unsupportedMediaType(['application/json']);
}

const decoded = (scope: ResourceRequest, body: Json): JsonObject =>
  decode(body, scope.resource, {
    validation: validationOf(scope.query, scope.request.method),
    warn: (text) => scope.warnings.push(text),
  });

const serializerOf = ({ resource, context, query, request }: ResourceRequest) =>
  negotiatedSerializer({
    resource,
    clock: context.clock,
    includeObject: query.get('includeObject'),
    accept: request.headers?.['accept'],
  });

function objectResponse(scope: ResourceRequest, status: number, object: ApiObject): PlaneResponse {
  const serializer = serializerOf(scope);
  return {
    status,
    headers: { 'content-type': serializer.contentType },
    body: serializer.object(object),
  };
}

const objectIn = (scope: ResourceRequest): ApiObject =>
  scope.context.writer.get(scope.resource, scope.path.namespace, nameIn(scope));
const nameIn = ({ path }: ResourceRequest): string => path.name ?? '';

export function list(scope: ResourceRequest): PlaneResponse {
  const { context, resource, path, query } = scope;
  if (isTrue(query.get('watch'))) return watch(scope);
  const selection = selectionOf(resource, path, query);
  return listResponse(scope, listPage(context.store, { resource, selection, query }));
}

function listResponse(
  scope: ResourceRequest,
  { items, metadata }: ReturnType<typeof listPage>,
): PlaneResponse {
  const serializer = serializerOf(scope);
  const contentType = serializer.contentType.replace(
    'PartialObjectMetadata;',
    'PartialObjectMetadataList;',
  );
  return {
    status: 200,
    headers: { 'content-type': contentType },
    body: serializer.list(items, metadata),
  };
}

function watch(scope: ResourceRequest): PlaneResponse {
  const { context, resource, path, query } = scope;
  const serializer = serializerOf(scope);
  const sendInitial = isTrue(query.get('sendInitialEvents') ?? 'false');
  const bookmarks = isTrue(query.get('allowWatchBookmarks') ?? 'false');
  const version = parseVersion(query.get('resourceVersion')) ?? 0;
  const seconds = Number(query.get('timeoutSeconds') ?? 0);
  const timeoutMs =
    seconds > 0 ? seconds * 1000 : (minWatchSeconds + context.random() * minWatchSeconds) * 1000;
  const stream = context.hub.watch({
    resource,
    selection: selectionOf(resource, path, query),
    serializer,
    // Without a version, a watch starts with the current state.
    version: sendInitial || version === 0 ? undefined : version,
    bookmarks,
    markInitial: sendInitial && bookmarks,
    timeoutMs: Math.min(timeoutMs, maxWatchMs),
  });
  return { status: 200, headers: { 'content-type': serializer.contentType }, body: stream };
}

export const read = (scope: ResourceRequest): PlaneResponse =>
  objectResponse(scope, 200, objectIn(scope));

export function create(scope: ResourceRequest): PlaneResponse {
  const { context, resource, path } = scope;
  const body = bodyOf(scope);
  const namespace = resource.namespaced ? path.namespace : undefined;
  if (resource.namespaced && namespace === undefined) throw methodNotAllowed();
  negotiate(scope.request.headers?.['accept']);
  const made = context.writer.create(
    resource,
    namespace,
    decoded(scope, body),
    writeOptions(scope.query, scope.request.method),
  );
  return objectResponse(scope, 201, made);
}

const partOf = ({ path }: ResourceRequest): Part =>
  path.subresource === 'status' ? 'status' : 'main';

function update(scope: ResourceRequest, old: ApiObject, sent: JsonObject, part: Part): ApiObject {
  const { context, resource } = scope;
  return context.writer.update(resource, old, sent, part, {
    ...writeOptions(scope.query, scope.request.method),
    isPatch: scope.request.method === 'PATCH',
  });
}

export function replace(scope: ResourceRequest): PlaneResponse {
  const { context, resource } = scope;
  const old = objectIn(scope);
  const sent = decoded(scope, bodyOf(scope));
  context.writer.requireVersion(resource, nameIn(scope), sent);
  return objectResponse(scope, 200, update(scope, old, sent, partOf(scope)));
}

export function patch(scope: ResourceRequest): PlaneResponse {
  const { resource } = scope;
  const type = contentTypeOf(scope.request);
  const old = objectIn(scope);
  const result = patched(old, type, scope.request.body ?? '', resource);
  const unknown =
    validationOf(scope.query, 'PATCH') === 'Strict' ? unknownFields(result, resource) : [];
  if (unknown.length > 0) {
    const texts = unknown.map((field) => `unknown field ${JSON.stringify(field)}`);
    throw invalid(resource, nameIn(scope), [
      invalidValue('patch', scope.request.body ?? '', `strict decoding error: ${texts.join(', ')}`),
    ]);
  }
  const sent = decoded(scope, result);
  return objectResponse(scope, 200, update(scope, old, sent, partOf(scope)));
}

const deleteBody = (scope: ResourceRequest): Json =>
  scope.request.body === undefined || scope.request.body.trim() === '' ? {} : bodyOf(scope);

/** Kinds for which the API server answers a completed deletion with the deleted object. */
const returnDeleted: ReadonlySet<string> = new Set([
  '/pods',
  '/persistentvolumeclaims',
  '/serviceaccounts',
]);

export function remove(scope: ResourceRequest): PlaneResponse {
  const { context, resource } = scope;
  const { object, gone } = context.writer.delete(
    resource,
    objectIn(scope),
    deleteOptions(scope.query, deleteBody(scope)),
  );
  if (!gone || returnDeleted.has(resource.key)) return objectResponse(scope, 200, object);
  return jsonResponse(200, deletedStatus(resource, object.metadata));
}

export function scale(scope: ResourceRequest): PlaneResponse {
  const { resource, request } = scope;
  const paths = resource.scale;
  if (paths === undefined) throw methodNotAllowed();
  const old = objectIn(scope);
  if (request.method === 'GET') return jsonResponse(200, scaleOf(old, paths));
  const present: Json = scaleOf(old, paths);
  const type = contentTypeOf(scope.request);
  const wanted =
    request.method === 'PATCH'
      ? patched(present, type, request.body ?? '', { ...resource, builtin: true })
      : bodyOf(scope);
  if (!isObject(wanted)) throw badRequest('a Scale must be an object');
  const sent = decoded(scope, withScale(old, wanted, paths));
  return jsonResponse(200, scaleOf(update(scope, old, sent, 'main'), paths));
}

const success = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 };

const binding = { group: '', plural: 'pods/binding', kind: 'Binding' };

const podIn = ({ context, resource, path }: ResourceRequest): ApiObject =>
  context.writer.get(resource, path.namespace, path.name ?? '');

export function bind(scope: ResourceRequest): PlaneResponse {
  const { context, resource } = scope;
  const body = bodyOf(scope);
  const node = stringAt(objectAt(body, 'target'), 'name');
  if (node === undefined || node === '') throw badRequest('Binding.target.name: Required value');
  const pod = podIn(scope);
  const { name } = pod.metadata;
  checkUid(resource, pod.metadata, stringAt(objectAt(body, 'metadata'), 'uid') ?? '');
  if (pod.metadata.deletionTimestamp !== undefined)
    throw conflict(binding, name, `pod ${name} is being deleted, cannot be assigned to a host`);
  const spec = objectAt(pod, 'spec') ?? {};
  const present = stringAt(spec, 'nodeName');
  if (present !== undefined)
    throw conflict(binding, name, `pod ${name} is already assigned to node "${present}"`);
  context.writer.store(resource, {
    ...pod,
    spec: { ...spec, nodeName: node },
    status: scheduled(pod, timestampOf(context.clock.now())),
  });
  return jsonResponse(201, success);
}

function scheduled(pod: ApiObject, now: string): JsonObject {
  const conditions = arrayAt(pod['status'], 'conditions').filter(
    (condition) => !isObject(condition) || condition['type'] !== 'PodScheduled',
  );
  return {
    ...objectAt(pod, 'status'),
    conditions: [
      ...conditions,
      { type: 'PodScheduled', status: 'True', lastProbeTime: null, lastTransitionTime: now },
    ],
  };
}
