import type { ResourceLookup } from '../lookup/resource-lookup.ts';
import { type Route, endpoints } from '../http/route.ts';
import { searchPage } from '../paging/cursor.ts';
import { sortedBy } from '../paging/keyset.ts';
import {
  presentSandboxSpec,
  sandboxSpecList,
  sandboxSpecPage,
} from '../presenters/sandbox-spec.ts';
import { refuseTooMany } from '../http/fields.ts';
import { idQuery, pageQuery } from './schemas.ts';

const base = '/api/v1/sandbox-specs';
const { get } = endpoints('sandbox specs');

export const sandboxSpecRoutes = ({
  lookup,
}: {
  readonly lookup: ResourceLookup;
}): readonly Route[] => [
  get(`${base}/search`, 'searchSandboxSpecs', {
    summary: 'What sandboxes can be made from, by name',
    query: pageQuery,
    responses: { 200: sandboxSpecPage },
    handle: ({ query }) => {
      const { items, next_page_id } = searchPage(
        sortedBy(lookup.templates(), ({ metadata: { name } }) => ({ key: name, id: name })),
        { order: 'sandbox-specs', descending: false, ...query },
      );
      return { json: { items: items.map(presentSandboxSpec), next_page_id } };
    },
  }),
  get(base, 'getSandboxSpecs', {
    summary: 'Sandbox specs by id, in the order asked; null for unknown ones',
    query: idQuery,
    responses: { 200: sandboxSpecList },
    problems: ['too-many-ids'],
    handle: async ({ query }) => {
      refuseTooMany(query.id);
      const found = await Promise.all(query.id.map((id) => lookup.template(id)));
      return { json: found.map((template) => (template ? presentSandboxSpec(template) : null)) };
    },
  }),
];
