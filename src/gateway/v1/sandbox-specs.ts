import { keyRoute, type Route } from '../http/route.ts';
import type { Services } from '../services.ts';
import { decodeCursor, encodeCursor } from '../paging/cursor.ts';
import { pageOf, sortedBy } from '../paging/keyset.ts';
import { presentSandboxSpec } from '../presenters/sandbox-spec.ts';
import { sandboxSpecList, sandboxSpecPage } from './response-schemas.ts';
import { refuseTooMany } from './fields.ts';
import { idQuery, pageQuery } from './schemas.ts';

const base = '/api/v1/sandbox-specs';
const tag = 'sandbox specs';
const order = 'sandbox-specs';

export const sandboxSpecRoutes = ({ lookup }: Services): readonly Route[] => [
  keyRoute({
    method: 'get',
    path: `${base}/search`,
    operationId: 'searchSandboxSpecs',
    tag,
    summary: 'What sandboxes can be made from, by name',
    query: pageQuery,
    responses: { 200: sandboxSpecPage },
    handle: ({ query: { limit, page_id } }) => {
      const sorted = sortedBy(lookup.templates(), ({ metadata }) => ({
        key: metadata.name,
        id: metadata.name,
      }));
      const { items, next } = pageOf(sorted, {
        descending: false,
        limit,
        after: decodeCursor(order, page_id),
      });
      return {
        json: { items: items.map(presentSandboxSpec), next_page_id: encodeCursor(order, next) },
      };
    },
  }),
  keyRoute({
    method: 'get',
    path: base,
    operationId: 'getSandboxSpecs',
    tag,
    summary: 'Sandbox specs by id, in the order asked; null for unknown ones',
    query: idQuery,
    responses: { 200: sandboxSpecList },
    problems: ['too-many-ids'],
    handle: async ({ query }) => {
      refuseTooMany(query.id);
      const found = await Promise.all(query.id.map((id) => lookup.template(id)));
      return {
        json: found.map((template) =>
          template === undefined ? null : presentSandboxSpec(template),
        ),
      };
    },
  }),
];
