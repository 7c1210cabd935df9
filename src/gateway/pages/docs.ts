import { type OpenApiDocument, openApiDocument } from '../openapi/document.ts';
import type { JsonSchema } from '../openapi/components.ts';
import { escapeHtml, type Page, rendered } from './page.ts';
import { sendStatic } from '../http/send-bytes.ts';
import { z } from 'zod';
import { type Route, endpoints } from '../http/route.ts';

type Operation = OpenApiDocument['paths'][string][string];

const code = (text: string): string => `<code>${escapeHtml(text)}</code>`;

const isPlain = (value: unknown): boolean =>
  typeof value !== 'object' || (Array.isArray(value) && value.every(isPlain));

/** HTML of a schema: a link for a named schema, one line for a simple type, else all its JSON. */
function schemaHtml(schema: JsonSchema): string {
  const { $ref: reference, type, items } = schema;
  if (typeof reference === 'string') {
    const name = escapeHtml(reference.split('/').at(-1) ?? '');
    return `<a href="#schema-${name}">${name}</a>`;
  }
  if (type === 'array' && typeof items === 'object' && items !== null && '$ref' in items)
    return `list of ${schemaHtml({ ...items })}`;
  const { type: _type, description: _description, ...rules } = schema;
  if (Object.values(rules).every(isPlain)) {
    const texts = Object.entries(rules).map(
      ([rule, value]) => `${rule} ${Array.isArray(value) ? value.join(', ') : String(value)}`,
    );
    return code([typeof type === 'string' ? type : 'anything', ...texts].join('; '));
  }
  return `<pre>${escapeHtml(JSON.stringify(schema, undefined, 2))}</pre>`;
}

const exampleHtml = (example: unknown): string =>
  `<p>For example:</p><pre>${escapeHtml(typeof example === 'string' ? example : JSON.stringify(example, undefined, 2))}</pre>`;

const contentHtml = (content: Operation['responses'][string]['content']): string =>
  Object.entries(content)
    .map(
      ([type, { schema, example }]) =>
        `<p>${code(type)}</p>${schemaHtml(schema)}${example === undefined ? '' : exampleHtml(example)}`,
    )
    .join('');

function parametersHtml(parameters: Operation['parameters']): string {
  if (parameters.length === 0) return '';
  const rows = parameters.map(
    ({ name, in: where, required, description = '', schema }) =>
      `<tr><td>${code(name)}</td><td>${where}${required ? ', required' : ''}</td><td>${escapeHtml(description)} ${schemaHtml(schema)}</td></tr>`,
  );
  return `<h4>Parameters</h4><table>${rows.join('')}</table>`;
}

function needOf({ security: [need] }: Operation): string {
  if (need === undefined) return 'Needs no key.';
  const [scope] = need.bearer ?? [];
  return scope === undefined ? 'Needs a key.' : `Needs a key with the scope ${code(scope)}.`;
}

function operationHtml(method: string, path: string, operation: Operation): string {
  const name = operation.deprecated === true ? `<del>${code(path)}</del> (deprecated)` : code(path);
  const responses = Object.entries(operation.responses).map(
    ([status, { description, content }]) =>
      `<details><summary>${code(status)} ${escapeHtml(description)}</summary>${contentHtml(content)}</details>`,
  );
  return [
    `<details id="${escapeHtml(operation.operationId)}">`,
    `<summary><b>${escapeHtml(method)}</b> ${name} ${escapeHtml(operation.summary)}</summary>`,
    `<p>${needOf(operation)}</p>`,
    parametersHtml(operation.parameters),
    operation.requestBody === undefined
      ? ''
      : `<h4>Body</h4>${contentHtml(operation.requestBody.content)}`,
    `<h4>Answers</h4>${responses.join('')}`,
    '</details>',
  ].join('');
}

/** The OpenAPI document as a page, without a script. */
function docsPage({ info, servers, paths, components }: OpenApiDocument): Page {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ method, path, operation })),
  );
  const byTag = Map.groupBy(operations, ({ operation }) => operation.tags[0] ?? '');
  const sections = [...byTag].map(
    ([tag, group]) =>
      `<h2>${escapeHtml(tag)}</h2>${group.map(({ method, path, operation }) => operationHtml(method, path, operation)).join('')}`,
  );
  const schemas = Object.entries(components.schemas).map(
    ([name, schema]) =>
      `<details id="schema-${escapeHtml(name)}"><summary>${code(name)}</summary><pre>${escapeHtml(JSON.stringify(schema, undefined, 2))}</pre></details>`,
  );
  return {
    title: `${info.title} ${info.version}`,
    body: [
      '<p><a href="./">All conversations</a></p>',
      `<h1>${escapeHtml(info.title)} ${escapeHtml(info.version)}</h1>`,
      `<p>${escapeHtml(info.description)} This page is made of <a href="openapi.json">openapi.json</a>, for code generators and other tools.</p>`,
      `<p>Base address: ${servers.map(({ url }) => code(url)).join(', ')}. Send your API key with each request: ${code('Authorization: Bearer co_…')}.</p>`,
      ...sections,
      '<h2>Schemas</h2>',
      ...schemas,
    ].join('\n'),
  };
}

/**
 * Creates the routes of the OpenAPI document, and of a page that shows it. The document contains
 * these two routes too. The first request generates the document.
 */
export function openApiRoutes(
  routes: readonly Route[],
  info: { readonly version: string; readonly publicUrl: () => string },
): readonly Route[] {
  let made: OpenApiDocument | undefined;
  let text: Buffer | undefined;
  let page: ReturnType<typeof rendered> | undefined;
  const document = () =>
    (made ??= openApiDocument([...routes, ...own], {
      version: info.version,
      serverUrl: info.publicUrl(),
    }));
  const own: readonly Route[] = [
    endpoints('health').getOpen('/openapi.json', 'openapi', {
      summary: 'This document',
      responses: { 200: z.record(z.string(), z.unknown()), 304: z.unknown() },
      handle: ({ response }) => {
        text ??= Buffer.from(JSON.stringify(document()));
        const headers = { 'content-type': 'application/json', 'cache-control': 'no-cache' };
        return sendStatic(response, headers, text);
      },
    }),
    endpoints('pages').getOpen('/docs', 'docs', {
      summary: 'This document for people',
      mediaType: 'text/html',
      responses: { 200: z.string(), 304: z.unknown() },
      handle: ({ response }) => {
        const { headers, body } = (page ??= rendered(docsPage(document())));
        return sendStatic(response, headers, body);
      },
    }),
  ];
  return own;
}
