package siege

import (
	"fmt"
	"os"
	"time"
)

const logHead = "      Date & Time,  Trans,  Elap Time,  Data Trans,  " +
	"Resp Time,  Trans Rate,  Throughput,  Concurrent,    OKAY,   Failed\n"

// writeLog appends the run to the log file, after the mark if there is one. Like siege, it
// truncates megabytes and their rate to integers.
func (c *Command) writeLog(o *outcome) error {
	f, err := os.OpenFile(c.logFile, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return fmt.Errorf("siege: write the log file: %w", err)
	}
	text := logLine(time.Now(), o)
	if c.mark != "" {
		text = fmt.Sprintf("**** %s ****\n", c.mark) + text
	}
	info, err := f.Stat()
	if err == nil && info.Size() == 0 {
		text = logHead + text
	}
	if err == nil {
		_, err = f.WriteString(text)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

func logLine(now time.Time, o *outcome) string {
	megabytes := int(o.megabytes)
	return fmt.Sprintf("%s,%7d,%11.2f,%12d,%11.2f,%12.2f,%12.2f,%12.2f,%8d,%8d\n", now.Format(time.DateTime),
		o.hits, o.seconds, megabytes, o.responseTime(), o.rate(), ratio(float64(megabytes), o.seconds),
		o.concurrency(), o.successful, o.failed)
}
