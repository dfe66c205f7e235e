mod timetable;
