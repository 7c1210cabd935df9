import { timestampOf } from '@conversation-operator/kube/object';
import { isObject, objectAt, stringAt, arrayAt, type JsonObject } from '../json/json.ts';
import { type ApiObject } from './api-object.ts';
import { checkUid } from './object-writer.ts';
import { jsonResponse, type PlaneResponse } from './request.ts';
import { bodyOf, type ResourceRequest } from './resource-handler.ts';
import { badRequest, conflict } from './status-error.ts';

const success = { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', code: 201 };

/** Resource that the conflict messages of a binding name. */
const binding = { group: '', plural: 'pods/binding', kind: 'Binding' };

const podIn = ({ context, resource, path }: ResourceRequest): ApiObject =>
  context.writer.get(resource, path.namespace, path.name ?? '');

/** Handles POST pods/{name}/binding, by which a scheduler assigns a node. */
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

/** Handles POST pods/{name}/eviction as a deletion, because there are no disruption budgets. */
export function evict(scope: ResourceRequest): PlaneResponse {
  const { context, resource } = scope;
  const options = objectAt(bodyOf(scope), 'deleteOptions');
  const grace = options?.['gracePeriodSeconds'];
  context.writer.delete(
    resource,
    podIn(scope),
    typeof grace === 'number' ? { gracePeriodSeconds: grace } : {},
  );
  return jsonResponse(201, success);
}
