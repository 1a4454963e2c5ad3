// The tool calls of a session as lanes, one for each kind of sidecar, with a bar for each call.

const MIN_SPAN = 10000; // milliseconds

export class Timeline {
  #due = false;

  constructor(chart, lists) {
    this.chart = chart;
    this.lists = lists;
    setInterval(() => {
      if (!chart.closest('[hidden]') && chart.querySelector('.running')) this.draw();
    }, 1000);
  }

  // Draws once for many changes.
  draw() {
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.#draw();
    });
  }

  #draw() {
    const now = Date.now();
    const calls = this.lists.flatMap((list) => [...list.querySelectorAll('.call')]).map((element) => ({
      element,
      lane: element.dataset.lane,
      start: Number(element.dataset.start),
      end: Number(element.dataset.end ?? now),
    }));
    if (calls.length === 0) {
      this.chart.replaceChildren();
      return;
    }
    const first = Math.min(...calls.map((call) => call.start));
    const last = Math.max(first + MIN_SPAN, ...calls.map((call) => call.end));
    const lanes = [...new Set(calls.map((call) => call.lane))].sort();
    this.chart.replaceChildren(...lanes.map((lane) => {
      const row = document.createElement('div');
      row.className = 'lane';
      const name = document.createElement('span');
      name.className = 'lane-name';
      name.textContent = lane;
      const bars = document.createElement('div');
      bars.className = 'bars';
      for (const call of calls.filter((other) => other.lane === lane)) {
        const bar = document.createElement('button');
        bar.type = 'button';
        bar.className = `bar ${call.element.className.replace('call', '').trim()}`;
        bar.style.left = `${((call.start - first) / (last - first)) * 100}%`;
        bar.style.width = `${((call.end - call.start) / (last - first)) * 100}%`;
        const text = call.element.innerText.replace(/\s+/g, ' ');
        bar.title = text;
        bar.ariaLabel = text;
        bar.addEventListener('click', () => {
          call.element.scrollIntoView({ block: 'center' });
          call.element.classList.add('chosen');
          setTimeout(() => call.element.classList.remove('chosen'), 1500);
        });
        bars.append(bar);
      }
      row.append(name, bars);
      return row;
    }));
  }
}
