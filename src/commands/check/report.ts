import { textTable } from '../text-table.ts';
import { exitCodeOf, type CheckResult } from './run-checks.ts';

/** The worst that a check has to say. */
export function verdictOf({ findings, notTried }: CheckResult): string {
  if (findings.some(({ severity }) => severity === 'error')) return 'error';
  if (findings.length > 0) return 'warning';
  return notTried.length > 0 ? 'not tried' : 'passed';
}

const rowOf = (result: CheckResult): readonly string[] => {
  const { name, findings, notTried, observed } = result;
  const codes = [...new Set(findings.map(({ code }) => code))].join(', ');
  const verdict = verdictOf(result);
  const isWhole = verdict === 'not tried' && observed === '';
  const untried = notTried.map((reason) => (isWhole ? reason : `not tried: ${reason}`));
  return [
    name,
    verdict,
    [codes === '' ? observed : codes, ...untried].filter((text) => text !== '').join('; '),
  ];
};

const last = (results: readonly CheckResult[]): string => {
  const all = results.flatMap(({ findings }) => findings);
  const count = (severity: string) => all.filter((each) => each.severity === severity).length;
  const untried = results.filter(({ notTried }) => notTried.length > 0).length;
  return `errors: ${count('error')}, warnings: ${count('warning')}, not tried or not as a whole: ${untried} of ${results.length} checks`;
};

/** The report for a terminal: a table, then each finding with the line that mends it. */
export function textReport(results: readonly CheckResult[]): string {
  const findings = results.flatMap(({ name, findings: of }) =>
    of.map(({ severity, code, cause, breaks, mend }) =>
      [
        `${severity}: ${code} (${name})`,
        `  cause:   ${cause}`,
        `  breaks:  ${breaks}`,
        `  mend:    ${mend}`,
      ].join('\n'),
    ),
  );
  const table = textTable([['CHECK', 'RESULT', 'OBSERVED'], ...results.map(rowOf)]);
  return `${[table, ...findings, last(results)].join('\n\n')}\n`;
}

/** The report for programs. */
export const jsonReport = (results: readonly CheckResult[]): string =>
  `${JSON.stringify(
    {
      exitCode: exitCodeOf(results),
      checks: results.map((result) => ({ ...result, result: verdictOf(result) })),
    },
    undefined,
    2,
  )}\n`;
