import { topOf } from '../chart-scale.ts';
import { count, money } from '../money.ts';
import type { UsageItem } from '../wire.ts';

const dayText = new Intl.DateTimeFormat('en', { day: 'numeric', month: 'short', timeZone: 'UTC' });
/** A day in UTC, such as `Nov 3`. */
export const shortDay = (day: string): string => dayText.format(Date.parse(`${day}T00:00:00Z`));

/** Height of the drawing in its own units; its width is 10 for each day. */
const height = 100;
const width = 10;

interface UsageChartProps {
  /** Every day of the span, in order. */
  readonly days: readonly UsageItem[];
}

/**
 * A bar for each day: its cost, or its tokens where no call has a price. The drawing is stretched
 * to its place; people with screen readers have the table of the same figures.
 */
export function UsageChart({ days }: UsageChartProps) {
  const isPriced = days.some(({ cost }) => cost > 0);
  const valueOf = (item: UsageItem) =>
    isPriced ? item.cost : item.input_tokens + item.output_tokens;
  const textOf = (value: number) => (isPriced ? money(value) : count(value));
  const top = topOf(Math.max(...days.map(valueOf)));
  const [first, last] = [days.at(0)?.key ?? '', days.at(-1)?.key ?? ''];
  return (
    <div class="chart">
      <div class="chart-scale" aria-hidden="true">
        <span>{textOf(top)}</span>
        <span>{textOf(top / 2)}</span>
        <span>{isPriced ? '$0' : '0'}</span>
      </div>
      <svg
        role="img"
        aria-label={`${isPriced ? 'Cost' : 'Tokens'} of each day from ${shortDay(first)} to ${shortDay(last)}. The table below has the figures.`}
        viewBox={`0 0 ${Math.max(1, days.length) * width} ${height}`}
        preserveAspectRatio="none"
      >
        {[0, height / 2, height].map((y) => (
          <line
            key={y}
            x1={0}
            x2={days.length * width}
            y1={y}
            y2={y}
            vector-effect="non-scaling-stroke"
          />
        ))}
        {days.map((item, index) => {
          const part = (valueOf(item) / top) * height;
          return (
            <g key={item.key}>
              <title>{`${shortDay(item.key)}: ${textOf(valueOf(item))}`}</title>
              <rect class="chart-day" x={index * width} y={0} width={width} height={height} />
              <rect
                class="chart-bar"
                x={index * width + 1}
                y={height - part}
                width={width - 2}
                height={part}
              />
            </g>
          );
        })}
      </svg>
      <div class="chart-days" aria-hidden="true">
        <span>{shortDay(first)}</span>
        {days.length > 1 && <span>{shortDay(last)}</span>}
      </div>
    </div>
  );
}
