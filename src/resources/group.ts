import type { z } from 'zod';
import {
  apiVersionOf,
  type CachedMetadata,
  type KubeObject,
  type ResourceDefinition,
} from '@conversation-operator/kube/object';
import { shapeOf } from './schema.ts';

export const group = 'conversation-operator.dev';
export const version = 'v1alpha1';
export const apiVersion = apiVersionOf({ group, version });

/**
 * A custom resource with the metadata that caches keep, so that cached and stored objects have one
 * type. `status` is absent until a controller has written it.
 */
export interface CustomObject<Spec, Status> extends KubeObject {
  readonly metadata: CachedMetadata & { readonly namespace: string; readonly generation: number };
  readonly spec: Spec;
  readonly status?: Status;
}

export interface PrinterColumn {
  readonly name: string;
  /**
   * kubectl prints a `date` as its age, and a date in the future as `<invalid>`. Therefore a time
   * that can be in the future is a `string`.
   */
  readonly type: 'string' | 'integer' | 'number' | 'date' | 'boolean';
  readonly jsonPath: string;
  readonly description: string;
  /** 1: only `-o wide` shows the column. Absent: it is always shown. */
  readonly priority?: 1;
}

export interface CustomResourceDefinition {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  readonly description: string;
  readonly spec: z.ZodType;
  readonly status: z.ZodType;
  /** Columns of `kubectl get` before the age of the object. */
  readonly printerColumns: readonly PrinterColumn[];
  /** JSON paths that field selectors may use, besides metadata.name and metadata.namespace. */
  readonly selectableFields: readonly string[];
  readonly scale?: typeof scaleOfReplicas;
}

/** The scale subresource of a kind with `replicas` in spec and status. */
export const scaleOfReplicas = {
  specReplicasPath: '.spec.replicas',
  statusReplicasPath: '.status.replicas',
  labelSelectorPath: '.status.selector',
} as const;

/** The resource that a client uses for the kind of a CRD. */
export function resourceOf<T extends KubeObject>(
  definition: CustomResourceDefinition,
): ResourceDefinition<T> {
  const { kind, plural, spec, status } = definition;
  const isSpec = shapeOf(spec);
  const isStatus = shapeOf(status);
  return {
    group,
    version,
    kind,
    plural,
    namespaced: true,
    accepts: (candidate): candidate is T => {
      if (typeof candidate !== 'object' || candidate === null) return false;
      const parts = candidate as { spec?: unknown; status?: unknown };
      return isSpec(parts.spec) && (parts.status === undefined || isStatus(parts.status));
    },
  };
}

/** A column that `kubectl get` always shows. */
export const column = (
  name: string,
  jsonPath: string,
  description: string,
  type: PrinterColumn['type'] = 'string',
): PrinterColumn => ({ name, type, jsonPath, description });

/** A column that only `kubectl get -o wide` shows. */
export const wideColumn = (...parts: Parameters<typeof column>): PrinterColumn => ({
  ...column(...parts),
  priority: 1,
});

export const ageColumn = column(
  'Age',
  '.metadata.creationTimestamp',
  'Time since creation.',
  'date',
);
