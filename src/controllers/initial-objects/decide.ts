import { isDeepStrictEqual } from 'node:util';
import { z } from 'zod';
import type { InitialObject } from '../../config/initial-objects.ts';
import { group } from '../../resources/group.ts';

/**
 * Annotation with the spec, as JSON, that the operator has given to an initial object. While the
 * object still has that spec it follows the values; a changed one belongs to people.
 */
export const initialSpecAnnotation = `${group}/initial-spec`;

/** The label by which an object without the annotation is one of an earlier version of the chart. */
const nameLabel = 'app.kubernetes.io/name';
const instanceLabel = 'app.kubernetes.io/instance';

const liveSchema = z.object({
  metadata: z.object({
    labels: z.record(z.string(), z.string()).default({}),
    annotations: z.record(z.string(), z.string()).default({}),
    managedFields: z
      .array(
        z.object({
          manager: z.string().default(''),
          subresource: z.string().optional(),
          fieldsV1: z.record(z.string(), z.unknown()).default({}),
        }),
      )
      .default([]),
  }),
  spec: z.unknown(),
});

export type InitialObjectStep =
  /** The object has the wanted spec, or had it before people changed it. */
  | { readonly do: 'nothing' }
  /** People have changed the object, and the values have changed since. */
  | { readonly do: 'leave' }
  /**
   * The object follows, unless people have changed it: that is so where putting `spec` into it
   * changes something.
   */
  | { readonly do: 'compare'; readonly spec: Readonly<Record<string, unknown>> }
  | { readonly do: 'replace' };

/** The spec of the annotation; undefined for what the operator has not written. */
function parsed(text: string): Readonly<Record<string, unknown>> | undefined {
  try {
    return z.record(z.string(), z.unknown()).safeParse(JSON.parse(text)).data;
  } catch {
    return undefined;
  }
}

const labelFields = z.object({
  'f:metadata': z.object({ 'f:labels': z.object({ [`f:${instanceLabel}`]: z.looseObject({}) }) }),
});
const setsInstance = (fields: unknown): boolean => labelFields.safeParse(fields).success;

/**
 * Decides what to do with an object that exists.
 *
 * Earlier versions of the chart had these objects as resources of the release. Such an object has
 * the labels of the chart and no annotation. Only who gave it those labels has ever set a field of
 * its spec, unless people have changed it: the API server notes who has set which field.
 */
export function decideInitialObject(wanted: InitialObject, live: unknown): InitialObjectStep {
  const { metadata } = liveSchema.parse(live);
  const given = metadata.annotations[initialSpecAnnotation];
  if (given !== undefined) {
    const spec = parsed(given);
    if (spec === undefined) return { do: 'leave' };
    return isDeepStrictEqual(spec, wanted.spec) ? { do: 'nothing' } : { do: 'compare', spec };
  }
  const isOfChart =
    metadata.labels[instanceLabel] !== undefined &&
    metadata.labels[nameLabel] === wanted.metadata.labels[nameLabel];
  // Also where people have set every field of the spec, the label is that of who made the object.
  const authors = new Set(
    metadata.managedFields
      .filter(
        ({ subresource, fieldsV1 }) =>
          subresource === undefined && ('f:spec' in fieldsV1 || setsInstance(fieldsV1)),
      )
      .map(({ manager }) => manager),
  );
  return { do: isOfChart && authors.size === 1 ? 'replace' : 'leave' };
}
